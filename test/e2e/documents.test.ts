import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { projectRoot } from '../../shared/config/project-root.js';
import { atEnd } from '../harness/cleanup.js';
import { Operator, Shopper } from '../harness/clients.js';
import { freePort } from '../harness/free-port.js';
import { ADMIN_SECRET, SERVICE_SECRET, startService } from '../harness/service.js';

/** The commands of the documents, run as a reader pastes them: with addresses and keys of a service of this test. */
const STRIPE_SECRET = 'whsec_a-stand-in-for-stripe';
const service = await startService({ STRIPE_WEBHOOK_SECRETS: STRIPE_SECRET, WEBHOOK_ALLOW_PRIVATE: '1' });
const [shopPort, paymentPort] = [await freePort(), await freePort()];
const temporary = (name: string) => join(String(process.env.DOORBUSTER_TEST_DIR), `documents-${name}`);
const secrets = temporary('secrets.json');
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
  // Each block is for a terminal of its own.
  const [coupons, webhook] = commands as [string, string];
  expect(lasting(await paste(coupons))).toBe(lasting(String(shown[0])));
  expect(await paste(webhook)).toMatch(/^\{"data":\{.*"secrets":\["whsec_.*\n$/);
  expect(blocks.some(({ code }) => code.startsWith('SHOP_ORIGINS='))).toBe(true);
});

test('the first block of docs/runbook.md can be pasted, and its key is that of an operator', async () => {
  const [first] = blocksOf('docs/runbook.md');
  const call = 'curl -s -o /dev/null -w "status %{http_code}" $api/admin/campaigns -H "Authorization: Bearer $admin"';
  expect(await paste(`${first?.code}${call}`)).toBe('status 200');
});

/** Statuses of the calls in the n-th blocks of a document that call the API. */
async function statusesOf(path: string, variables: Record<string, string>, changes: [string, string][][]) {
  const calls = blocksOf(path).filter(({ code }) => code.startsWith('curl '));
  expect([path, calls.length]).toEqual([path, changes.length]);
  const assigned = Object.entries(variables).map(([name, value]) => `${name}='${value}'`);
  const printed: string[] = [];
  for (const [i, { code }] of calls.entries()) {
    const changed = (changes[i] ?? []).reduce((text, [from, to]) => text.replaceAll(from, to), code);
    const calling = changed.replaceAll(/^curl/gm, 'curl -s -w "\\nstatus %{http_code}\\n"');
    printed.push(await paste([...assigned, calling].join('\n')));
  }
  return [...printed.join('').matchAll(/^status (\d+)$/gm)].map(([, status]) => Number(status));
}

test('the calls in the documents of one subject succeed', async () => {
  const operator = new Operator(service.url);
  const [api, admin] = [service.url, ADMIN_SECRET];
  const product = await operator.openCampaign({ total_limit: 10, hold_seconds: 60, max_qty: 3, per_user_limit: 3 });
  const order = async () => String((await new Shopper(service.url, product).checkout({ qty: 3 })).data.order_id);
  const [paid, held] = [await order(), await order()];
  const of = (id: string): [string, string][] => [
    ['ord_0190…', id],
    ['pi_3N…', 'pi_3N1'],
  ];
  const payments = { api, service_key: SERVICE_SECRET };
  expect(await statusesOf('docs/payments.md', payments, [of(paid), of(held), of(paid)])).toEqual([200, 200, 200]);
  expect(await statusesOf('docs/sale-page.md', { api, product, admin_key: admin }, [[]])).toEqual([200]);
  expect(await statusesOf('docs/team.md', { URL: api, ADMIN_KEY: admin }, [[]])).toEqual([201]);
  const file = temporary('codes.csv');
  writeFileSync(file, 'code,user_id\nSUMMER-0001,ann\n');
  const { data } = await operator.call('POST', '/admin/campaigns', {
    ...{ product_id: `codes-of-${product}`, name: 'Codes', type: 'unique', total_limit: 1_000 },
  });
  const fewer: [string, string][] = [
    ['100000', '100'],
    ['codes.csv', file],
  ];
  expect(await statusesOf('docs/codes.md', { api, admin, product: String(data.product_id) }, [fewer])).toEqual([
    202, 202,
  ]);
});

test('the commands for plans, partitions and keys of notifications succeed', async () => {
  const block = (path: string, command: string) =>
    String(blocksOf(path).find(({ code }) => code.startsWith(command))?.code);
  const isQuick = (line: string) => !/--costs/.test(line);
  const plans = ['docs/planning.md', 'docs/deployment.md'].map((path) => block(path, 'npm run plan'));
  const lines = plans.join('').split('\n').filter(isQuick);
  expect(lines.filter(Boolean).length).toBeGreaterThan(2);
  await new Operator(service.url).openCampaign({ product_id: 'flash-phone-2026', total_limit: 5 });
  const partitions = block('docs/postgres.md', 'npm run partitions').split('\n');
  // Only campaigns that are over lose their partition.
  const kept = partitions.filter((line) => !line.includes(' drop '));
  const env = temporary('env');
  const keys = block('docs/push.md', 'npm run --silent push:keys').replace('>> .env', `>> ${env}`);
  const printed = await paste(['set -e', ...lines, ...kept, keys, 'echo all done'].join('\n'));
  expect(printed).toMatch(/\nall done\n$/);
  expect(readFileSync(env, 'utf8')).toMatch(/^VAPID_PRIVATE_KEY=./m);
});

/** A command without `--help`, with the file that reads its options. */
const OPTIONS_IN: Record<string, string> = { 'start:api': 'api/main.ts' };

test.each(['test', 'test:long', 'screenshots', 'regions'])(
  'npm run %s -- --help prints the usage and starts nothing',
  async (name) => {
    expect(await paste(`npm run --silent ${name} -- --help`)).toMatch(new RegExp(`^usage: npm (?:run )?${name}\\b`));
  },
);

test('each npm command in the documents exists, with the options and scenarios that it is given', async () => {
  const { scripts } = JSON.parse(readFileSync(join(projectRoot(), 'package.json'), 'utf8'));
  const folders = ['.', 'docs', 'client', 'server', 'examples', 'lua', 'deploy'];
  const paths = folders.flatMap((folder) =>
    readdirSync(join(projectRoot(), folder))
      .filter((name) => name.endsWith('.md') && name !== 'CHANGELOG.md')
      .map((name) => join(folder, name)),
  );
  const COMMAND = /\bnpm (?:run (?:--silent )?([\w:-]+)|(start|test)\b)(?: -- ([^`|;&#\n)]*))?/g;
  const commands = paths.flatMap((path) => {
    const text = readFileSync(join(projectRoot(), path), 'utf8');
    const code = [...text.matchAll(/^ *```\w*\n[\s\S]*?^ *```$|`[^`\n]+`/gm)].map(([found]) => found).join('\n');
    return [...code.matchAll(COMMAND)].map(([, run, short, args = '']) => ({ path, name: String(run ?? short), args }));
  });
  expect(commands.length).toBeGreaterThan(100);
  const helpOf = (name: string) => {
    const file = OPTIONS_IN[name];
    if (file) return readFileSync(join(projectRoot(), file), 'utf8');
    return paste(
      `npm run --silent ${name} -- --help; ${name === 'loadtest' ? 'npm run --silent loadtest -- --list' : ''}`,
    );
  };
  const helps = new Map<string, string>();
  const wrong: string[] = [];
  for (const { path, name, args } of commands) {
    if (!Object.hasOwn(scripts, name)) wrong.push(`${path}: npm run ${name}`);
    const options = [...args.matchAll(/--(?!help)[a-z][\w-]*/g)].map(([option]) => option);
    const [scenario = ''] = name === 'loadtest' || name === 'bench' ? args.split(' ') : [];
    const given = /^[a-z]/.test(scenario) ? [...options, scenario] : options;
    if (given.length === 0) continue;
    const help = helps.get(name) ?? (await helpOf(name));
    helps.set(name, help);
    wrong.push(...given.filter((word) => !help.includes(word)).map((word) => `${path}: npm run ${name} -- ${word}`));
  }
  expect(wrong).toEqual([]);
});
