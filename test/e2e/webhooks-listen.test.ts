import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { projectRoot } from '../../shared/config/project-root.js';
import { atEnd } from '../harness/cleanup.js';
import { Operator, Shopper } from '../harness/clients.js';
import { startReceiver } from '../harness/receiver.js';
import { sharedService } from '../harness/service.js';
import { until } from '../harness/until.js';

const service = await sharedService();
const operator = new Operator(service.url);
const PROGRAM = join(projectRoot(), 'scripts/webhooks-listen.mjs');
const env = { PATH: process.env.PATH, ADMIN_API_KEYS: service.env.ADMIN_API_KEYS, DATA_DIR: '/nonexistent' };

function listen(...args: string[]) {
  const child = spawn(process.execPath, [PROGRAM, '--api', service.url, ...args], { env });
  const [exited, output] = [once(child, 'exit'), { text: '' }];
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output.text += chunk));
  atEnd('webhooks:listen', async () => {
    child.kill('SIGKILL');
    await exited;
  });
  return { child, exited, output };
}

test('prints verified events, forwards them, and removes its endpoint at the end', async () => {
  const shop = await startReceiver();
  const wanted = await operator.openCampaign({ total_limit: 5 });
  const other = await operator.openCampaign({ total_limit: 5 });
  const { child, exited, output } = listen('--test', '--campaigns', wanted, '--forward-to', shop.url);
  await until('the test event came', () => output.text.includes('dev.doorbuster.webhook.test.v1'));
  await new Shopper(service.url, other).checkout();
  const { data } = await new Shopper(service.url, wanted).checkout();
  await until('the event was printed', () =>
    output.text.includes(`${data.reservation_id}  signature ok, ${shop.url} responded with 204`),
  );
  expect(shop.received.map(({ event }) => event.type)).toEqual([
    'dev.doorbuster.webhook.test.v1',
    'dev.doorbuster.redemption.redeemed.v1',
  ]);
  expect(shop.received[1]?.headers).toMatchObject({ 'webhook-signature': expect.stringMatching(/^v1,/) });
  const endpoint = (await operator.call('GET', '/admin/webhooks')).data[0];
  const forged = await fetch(endpoint.url, { method: 'POST', body: '{}', headers: { 'webhook-id': 'x' } });
  expect(forged.status).toBe(401);
  await until('the forged event was reported', () => output.text.includes('rejected: signature'));
  child.kill('SIGINT');
  expect(await exited).toEqual([0, null]);
  expect(output.text).toContain(`endpoint ${endpoint.id} was removed`);
  expect((await operator.call('GET', '/admin/webhooks')).data).toEqual([]);
});

test('finds the service that npm start runs for the same data', () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'listen-'));
  atEnd('the data directory', async () => rmSync(dataDir, { recursive: true }));
  const find = (record: object, more: NodeJS.ProcessEnv = {}) => {
    writeFileSync(join(dataDir, 'run.json'), JSON.stringify(record));
    const { stdout, stderr } = spawnSync(process.execPath, [PROGRAM, '--types', 'x'], {
      env: { ...env, DATA_DIR: dataDir, ...more },
      encoding: 'utf8',
    });
    return stdout + stderr;
  };
  const processes = { api: { pid: 1, identity: '' } };
  expect(find({ ports: {}, address: service.url, processes })).toContain('was refused with 400');
  // PORT names another one; what has stopped is not called.
  expect(find({ ports: {}, address: service.url, processes }, { PORT: '1' })).toContain('at http://127.0.0.1:1.');
  expect(find({ ports: {}, address: service.url, processes: {} })).not.toContain('was refused with 400');
});

test('explains itself and what is missing', () => {
  const run = (args: string[], more: NodeJS.ProcessEnv = {}) => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [PROGRAM, ...args], {
      env: { ...env, ...more },
      encoding: 'utf8',
    });
    return [status, stdout + stderr];
  };
  expect(run(['--help'])).toEqual([0, expect.stringContaining('--forward-to URL')]);
  expect(run(['--typs', 'x'])).toEqual([2, expect.stringContaining("Unknown option '--typs'")]);
  expect(run(['--api', 'shop'])).toEqual([2, expect.stringContaining('shop is no URL')]);
  expect(run(['--api', 'http://127.0.0.1:1'])).toEqual([2, expect.stringContaining('No server responds')]);
  expect(run(['--api', service.url], { ADMIN_API_KEYS: '' })).toEqual([2, expect.stringContaining('no admin key')]);
  expect(run(['--api', service.url, '--types', 'x'])).toEqual([1, expect.stringContaining('was refused with 400')]);
});
