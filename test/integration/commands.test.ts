import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { projectRoot } from '../../shared/config/project-root.js';
import { atEnd } from '../harness/cleanup.js';
import { runProgram } from '../harness/programs.js';

/** What each command of operators has: `--help`, its usage for wrong arguments, the reason when engines are missing. */
const names = readdirSync(join(projectRoot(), 'commands'))
  .filter((name) => name.endsWith('.ts') && !name.startsWith('command'))
  .map((name) => name.replace('.ts', ''));
const nowhere = mkdtempSync(join(tmpdir(), 'doorbuster-no-service-'));
atEnd('the folder without a service', () => rmSync(nowhere, { recursive: true }));
const WITHOUT_ENGINES = { REDIS_URL: '', DATABASE_URL: '', DATA_DIR: nowhere };

const run = (name: string, ...args: string[]) =>
  runProgram(process.execPath, [join(projectRoot(), 'scripts/command.mjs'), name, ...args], WITHOUT_ENGINES);

/** Arguments with which a command begins. */
const COMPLETE: Record<string, string[]> = {
  backup: [join(nowhere, 'backup')],
  ledger: ['some-product'],
  reconcile: ['--after-restore'],
  reshard: ['--to', '2'],
  restore: [nowhere],
};

test('each script of package.json that runs a command has a file', () => {
  const { scripts } = JSON.parse(readFileSync(join(projectRoot(), 'package.json'), 'utf8'));
  const named = Object.entries(scripts as Record<string, string>).flatMap(([name, script]) =>
    script === `node scripts/command.mjs ${name}` ? [name] : [],
  );
  expect(named.toSorted()).toEqual(names.toSorted());
});

for (const name of names) {
  test(`npm run ${name}: usage, wrong arguments, no engines`, async () => {
    const [help, wrong, alone] = await Promise.all([
      run(name, '--help'),
      run(name, '--no-such-option'),
      run(name, ...(COMPLETE[name] ?? [])),
    ]);
    expect({ status: help.status, stderr: help.stderr }).toEqual({ status: 0, stderr: '' });
    expect(help.stdout.startsWith(`usage: npm run ${name}`)).toBe(true);
    expect({ status: wrong.status, stdout: wrong.stdout }).toEqual({ status: 2, stdout: '' });
    expect(wrong.stderr).toContain('--no-such-option');
    expect(wrong.stderr).toContain(help.stdout);
    expect({ status: alone.status, stdout: alone.stdout }).toEqual({ status: 2, stdout: '' });
    expect(alone.stderr).toMatch(/DATABASE_URL/);
  });
}

test.each([
  ['reshard', ['--to', '3'], '--to must be one of 1, 2, 4, 8, 16'],
  ['reshard', ['--campaign', 'one', '--to-shard', 'two'], '--to-shard must be'],
  ['restore', [nowhere, '--redis', 'maybe'], '--redis must be keep or discard'],
  ['audit', ['--head', 'abc'], '--head must be'],
  ['partitions', ['remove', 'one'], 'There is no action remove'],
  ['regions', ['leave'], 'There is no action leave'],
])('npm run %s says what is wrong with %p', async (name, args, reason) => {
  const { status, stderr } = await run(name, ...args);
  expect([status, stderr.split('\n')[0]]).toEqual([2, expect.stringContaining(reason)]);
});
