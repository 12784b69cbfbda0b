import { execFile } from 'node:child_process';
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { hasArtillery } from '../../loadtest/artillery.mjs';
import { projectRoot } from '../../shared/config/project-root.js';
import { sharedService } from '../harness/service.js';
import { ledger } from '../harness/verdict.js';
import { promised } from '../harness/violation.js';
import { folderOfTest } from './load-test.js';

const service = await sharedService();
const secretOf = (keys: unknown) => String(keys).slice(String(keys).indexOf(':') + 1);

type FileRun = { code: number; output: string; counters: Record<string, number> };

/** Runs a file as a user would who has nothing but the file. */
function runFile(name: string, variables: Record<string, unknown>): Promise<FileRun> {
  const folder = folderOfTest();
  copyFileSync(join(projectRoot(), `loadtest/artillery/${name}.yml`), join(folder, `${name}.yml`));
  const report = join(folder, 'report.json');
  const args = ['run', '--target', service.url, '-e', 'small', '-v', JSON.stringify(variables), '--output', report];
  const env = {
    PATH: process.env.PATH,
    HOME: folder,
    ADMIN_KEY: secretOf(service.env.ADMIN_API_KEYS),
    SERVICE_KEY: secretOf(service.env.SERVICE_API_KEYS),
    ARTILLERY_DISABLE_TELEMETRY: 'true',
  };
  const artillery = join(projectRoot(), 'loadtest/node_modules/artillery/bin/run');
  return new Promise((resolve) => {
    execFile(process.execPath, [artillery, ...args, `${name}.yml`], { cwd: folder, env }, (error, stdout, stderr) => {
      const output = `${stdout}${stderr}`;
      const counters = error ? {} : JSON.parse(readFileSync(report, 'utf8')).aggregate.counters;
      resolve({ code: error ? Number(error.code ?? -1) : 0, output, counters });
    });
  });
}

if (!hasArtillery()) {
  process.stderr.write('\nSKIPPED: files of Artillery; `npm run loadtest -- <scenario>` installs it.\n');
}
const onlyWithArtillery = hasArtillery() ? test : test.skip;
const FILES: [name: string, users: number, variables: Record<string, unknown>][] = [
  ['spike', 160, { units: 20 }],
  ['waiting-room', 30, { units: 4, polls: 4, poll_seconds: 1 }],
  ['payment-timeouts', 20, { units: 10, hold_seconds: 1, polls: 8, poll_seconds: 1 }],
];
// Artillery waits most of the time, so all of them run at once.
const ended = FILES.map(([name, , variables]) =>
  hasArtillery() ? runFile(name, { product: `file-${name}`, ...variables }) : null,
);
// The second turn would come after the last poll.
const tooShort = { product: 'file-fails', units: 1, hold_seconds: 60, polls: 1, poll_seconds: 1 };
const failing = hasArtillery() ? runFile('payment-timeouts', tooShort) : null;

for (const [at, [name, users]] of FILES.entries()) {
  onlyWithArtillery(`${name}.yml passes from an empty folder, without a 5xx and with a clean verdict`, async () => {
    const { code, output, counters } = (await ended[at]) as FileRun;
    expect(output).toContain('ok: vusers.failed == 0');
    expect(code).toBe(0);
    expect(counters).toMatchObject({ 'vusers.created': users, 'vusers.completed': users, 'vusers.failed': 0 });
    expect(Object.keys(counters).filter((counter) => counter.startsWith('http.codes.5'))).toEqual([]);
    expect(counters['http.responses']).toBe(counters['http.requests']);
    const { code: differs, verdict } = await ledger(service.env, `file-${name}`);
    promised(() => expect(verdict).toMatchObject({ lost: 0, duplicated: 0, over_cap: 0, drift: 0 }));
    expect(differs).toBe(0);
    expect(verdict.confirmed).toBeGreaterThan(0);
  });
}

onlyWithArtillery('in the repository a file takes the keys of `npm start`, and not for another machine', async () => {
  const dataDir = folderOfTest();
  const { ADMIN_API_KEYS, SERVICE_API_KEYS } = service.env;
  writeFileSync(join(dataDir, 'secrets.json'), JSON.stringify({ ADMIN_API_KEYS, SERVICE_API_KEYS }));
  const command = join(projectRoot(), 'loadtest/artillery-command.mjs');
  const file = join(projectRoot(), 'loadtest/artillery/waiting-room.yml');
  const env = { PATH: process.env.PATH, HOME: dataDir, DATA_DIR: dataDir };
  const variables = JSON.stringify({ product: 'file-own-keys', units: 2, polls: 2, poll_seconds: 1 });
  const run = (...args: string[]) =>
    new Promise<string>((resolve) => {
      const all = [command, 'run', '-e', 'small', '-v', variables, ...args, file];
      execFile(process.execPath, all, { env }, (_error, stdout, stderr) => resolve(`${stdout}${stderr}`));
    });
  expect(await run('--target', service.url)).toContain('ok: vusers.failed == 0');
  // The name of this machine that is no loopback address in the sense of the command.
  const elsewhere = await run('--target', service.url.replace('127.0.0.1', '0.0.0.0'));
  expect(elsewhere).toContain('Failed capture or match');
});

onlyWithArtillery('a file fails when a user does not get what it expects', async () => {
  const { code, output } = (await failing) as FileRun;
  expect(output).toContain('fail: vusers.failed == 0');
  expect(code).toBe(1);
});
