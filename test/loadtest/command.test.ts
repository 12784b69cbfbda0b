import { expect, test } from '@jest/globals';
import { createTestDatabase } from '../harness/engines.js';
import { sharedService } from '../harness/service.js';
import { loadTest } from './load-test.js';

const service = await sharedService();
const engines = { REDIS_URL: String(service.env.REDIS_URL), DATABASE_URL: String(service.env.DATABASE_URL) };
const keys = {
  ADMIN_API_KEYS: String(service.env.ADMIN_API_KEYS),
  SERVICE_API_KEYS: String(service.env.SERVICE_API_KEYS),
};

const refused: [string, NodeJS.ProcessEnv, string[], RegExp][] = [
  ['no scenario', {}, [], /Which scenario\? spike, opening-second,/],
  ['an unknown scenario', {}, ['opening-hour'], /There is no scenario opening-hour\. There are spike, opening-second,/],
  ['an unknown option', {}, ['codes', '--fast'], /There is no option --fast/],
  ['a scale that is none', {}, ['codes', '--scale', '2'], /--scale 2: expected/],
  ['a server that does not run', {}, ['codes', '--target', 'http://127.0.0.1:9'], /No server responds[\s\S]*npm start/],
  [
    'a target elsewhere',
    {},
    ['codes', '--target', 'http://192.0.2.1'],
    /is not this machine[\s\S]*--i-own-this-target/,
  ],
  [
    'a target for a scenario with engines of its own',
    {},
    ['ten-buckets', '--target', service.url],
    /starts engines and services of its own[\s\S]*Leave out --target/,
  ],
  ['no keys', engines, ['codes', '--target', service.url], /There is no ADMIN_API_KEYS for/],
  ['no engines', keys, ['codes', '--target', service.url], /The ledger needs the engines of/],
  [
    'a wrong admin key',
    { ...keys, ...engines, ADMIN_API_KEYS: 'x:this-is-not-the-admin-key' },
    ['opening-second', '--target', service.url],
    /401[\s\S]*The admin key is not that of this server/,
  ],
  ['a report that is none', {}, ['--again', 'package.json'], /package\.json is no report/],
];
for (const [what, env, args, says] of refused) {
  test(`given ${what}, it says what to do and exits with 2`, async () => {
    const { code, output, reports } = await loadTest(env, ...args);
    expect(output).toMatch(says);
    expect(output).not.toMatch(/at .*\.mjs:\d+/);
    expect({ code, reports }).toEqual({ code: 2, reports: [] });
  });
}

test('a run fails before the load when the engines are not those of the server', async () => {
  const { url } = await createTestDatabase();
  const elsewhere = { ...engines, DATABASE_URL: url };
  const { code, output } = await loadTest({ ...keys, ...elsewhere }, 'opening-second', '--target', service.url);
  expect(output).toMatch(/The ledger could not be compared[\s\S]*must be those of the target/);
  expect(output).not.toMatch(/phones open the page/);
  expect(code).toBe(2);
});

test('--help and --list name all scenarios', async () => {
  const list = await loadTest({}, '--list');
  expect(list.code).toBe(0);
  expect(list.output.trim().split('\n').length).toBe(11);
  const help = await loadTest({}, '--help');
  expect([help.code, help.output.includes('--i-own-this-target')]).toEqual([0, true]);
});
