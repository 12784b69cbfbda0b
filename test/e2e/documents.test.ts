import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { projectRoot } from '../../shared/config/project-root.js';
import { atEnd } from '../harness/cleanup.js';
import { freePort } from '../harness/free-port.js';
import { startService } from '../harness/service.js';

/** The commands of the documents, run as a reader pastes them: with addresses and keys of a service of this test. */
const STRIPE_SECRET = 'whsec_a-stand-in-for-stripe';
const service = await startService({ STRIPE_WEBHOOK_SECRETS: STRIPE_SECRET, WEBHOOK_ALLOW_PRIVATE: '1' });
const [shopPort, paymentPort] = [await freePort(), await freePort()];
const secrets = join(String(process.env.DOORBUSTER_TEST_DIR), 'documents-secrets.json');
writeFileSync(secrets, JSON.stringify(service.env));

/** @returns the blocks of code of a document, in order */
function blocksOf(path: string): { language: string; code: string }[] {
  const text = readFileSync(join(projectRoot(), path), 'utf8');
  return [...text.matchAll(/^```(\w*)\n([\s\S]*?)^```$/gm)].map(([, language, code]) => ({
    language: String(language),
    code: String(code),
  }));
}

/** The commands with the addresses of this test. */
const here = (commands: string): string =>
  commands
    .replaceAll('http://127.0.0.1:8102', service.url)
    .replaceAll('http://127.0.0.1:4242', `http://127.0.0.1:${paymentPort}`)
    .replaceAll('.data/secrets.json', secrets);
const environment = { ...service.env, DOORBUSTER_URL: service.url, STRIPE_WEBHOOK_SECRETS: undefined };

/** Runs commands in the folder of the project. @returns what they print, also to stderr */
function paste(commands: string): Promise<string> {
  return new Promise((resolve) => {
    execFile('sh', ['-c', here(commands)], { cwd: projectRoot(), env: environment }, (_, stdout, stderr) =>
      resolve(stdout + stderr),
    );
  });
}

/** Runs commands in a terminal of their own, until the end of the test. @returns when they have printed a line */
async function pasteInTerminal(commands: string, env: NodeJS.ProcessEnv): Promise<void> {
  const shell = spawn('sh', ['-c', here(commands)], {
    cwd: projectRoot(),
    env: { ...environment, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
    detached: true,
  });
  const exited = once(shell, 'exit');
  atEnd('a terminal', async () => {
    // The shell, and the program that it started.
    if (shell.exitCode === null) process.kill(-Number(shell.pid));
    await exited;
  });
  const ended = exited.then(() => Promise.reject(new Error(`ended before it printed a line: ${commands}`)));
  await Promise.race([once(shell.stdout, 'data'), ended]);
}

/** A text without what differs from one run to the next: ids, times, tickets, and how far Postgres is. */
const lasting = (text: string): string =>
  text
    .replace(/\b(lamp-|WELCOME)\d+/g, '$1')
    .replace(/urn:doorbuster:request:[^"]+/g, 'request')
    .replace(/\bord_[0-9a-f]{32}/g, 'ord')
    .replace(/\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/g, 'id')
    .replace(/\bt1\.[\w.-]+/g, 'ticket')
    .replace(/"(persisted|in_flight)": \d+/g, '"$1": n')
    // On a cluster.
    .replaceAll('"durability":"replicated"', '"durability":"journaled"')
    .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'time');

test('the session of the README prints what the README shows', async () => {
  const blocks = blocksOf('README.md');
  const at = blocks.findIndex(({ language }) => language === 'sh');
  expect(at).toBeGreaterThanOrEqual(0);
  expect(lasting(await paste(String(blocks[at]?.code)))).toBe(lasting(String(blocks[at + 1]?.code)));
});

test('the commands of docs/start.md sell 100 units to 120 shoppers', async () => {
  const blocks = blocksOf('docs/start.md');
  const commands = blocks.filter(({ language }) => language === 'sh').map(({ code }) => code);
  const printed = blocks.filter(({ code }) => /^\{/.test(code)).map(({ code }) => code);
  const [standIn, shop, crowd, ledger] = commands as [string, string, string, string];
  expect([commands.length, printed.length]).toEqual([4, 2]);
  expect(blocks.some(({ code }) => code === `STRIPE_WEBHOOK_SECRETS=${STRIPE_SECRET} npm start\n`)).toBe(true);
  await pasteInTerminal(standIn, { PORT: String(paymentPort) });
  await pasteInTerminal(shop, { PORT: String(shopPort), SHOP_URL: `http://localhost:${shopPort}` });
  expect(await paste(crowd)).toBe(printed[0]);
  expect(lasting(await paste(ledger))).toBe(lasting(String(printed[1])));
});

test('the commands of docs/integrate.md print what it shows, and create a webhook', async () => {
  const blocks = blocksOf('docs/integrate.md');
  const commands = blocks.filter(({ language }) => language === 'sh').map(({ code }) => code);
  const shown = blocks.filter(({ code }) => /^\{/.test(code)).map(({ code }) => code);
  expect([commands.length, shown.length]).toEqual([2, 1]);
  const printed = (await paste(commands.join('\n'))).split('\n');
  expect(lasting(printed.slice(0, 4).join('\n'))).toBe(lasting(String(shown[0]).trimEnd()));
  expect(printed[4]).toMatch(/^\{"data":\{.*"secrets":\["whsec_/);
});
