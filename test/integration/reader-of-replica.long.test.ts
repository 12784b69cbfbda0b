import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test } from '@jest/globals';
import { atEnd } from '../harness/cleanup.js';
import { Operator, send } from '../harness/clients.js';
import { startTestRedis } from '../harness/engines.js';
import { connectDatabase } from '../harness/persistence.js';
import { startPostgresReplica } from '../harness/postgres-replica.js';
import { serviceEnv, startApiProcess, startWorkerProcess } from '../harness/service.js';
import { startStagePostgres } from '../harness/stage-postgres.js';
import { until } from '../harness/until.js';

/** An API with `API_ROLE=read` and a streaming replica of Postgres, which falls behind and goes away. */
const folder = await mkdtemp(join(tmpdir(), 'doorbuster-reader-'));
atEnd('the folder', () => rm(folder, { recursive: true, force: true }));
const folders = { primary: join(folder, 'primary'), replica: join(folder, 'replica') };
const primary = await startStagePostgres(folders.primary, null);
atEnd('the primary', () => primary.stop());
const replica = await startPostgresReplica(primary, folders);
atEnd('the replica', () => replica.stop());
const ofReplica = connectDatabase(replica.url);
const redis = await startTestRedis();
const env = serviceEnv(redis.url, primary.url, { API_ROLE: 'write' });
const [{ url: write }] = await Promise.all([startApiProcess(env), startWorkerProcess(env)]);
const startReader = async (readUrl: string) =>
  (await startApiProcess({ ...env, API_ROLE: 'read', API_WRITE_URL: write, DATABASE_READ_URL: readUrl })).url;
const read = await startReader(replica.url);
const operator = new Operator(write);

const replicaOf = async (url = read) => (await send(`${url}/readyz`)).data.checks.replica;
const follows = async (url = read) => (await replicaOf(url)).ok === true;
afterEach(async () => {
  await ofReplica.query('select pg_wal_replay_resume()').catch(() => {});
});

type Fields = Record<string, unknown>;
const newCode = () => `CODE${randomUUID().slice(0, 12).replace('-', '').toUpperCase()}`;
const open = async (terms: Fields = {}) => {
  const code = newCode();
  const discount = { kind: 'percent', percent: 10 };
  return { code, product: await operator.openCampaign({ code, total_limit: 10, discount, ...terms }) };
};
const check = (fields: Fields, url = read) =>
  send(`${url}/coupons/validate`, { method: 'POST', json: { user_id: `user-${randomUUID()}`, ...fields } });
const cart = { subtotal: 1_000, currency: 'EUR' };

test('a code that the replica lacks is valid, alone and beside others', async () => {
  await until('the replica follows', follows);
  const old = await open();
  await until('the filter knows it', async () => (await check({ code: old.code })).status === 200);
  await ofReplica.query('select pg_wal_replay_pause()');
  const fresh = await open();
  expect((await check({ code: fresh.code, cart })).status).toBe(200);
  const beside = await open();
  const both = await check({ codes: [old.code, beside.code], cart });
  const reasons = both.data.left_out.map(({ reason }: { reason: string }) => reason);
  expect(reasons).not.toContain('code_not_found');
  expect((await send(`${read}/flash-sale/campaign?product_id=${beside.product}`)).status).toBe(200);
});

test('a replica that falls behind is left for the primary, which has what was changed', async () => {
  await until('the replica follows', follows);
  const { code, product } = await open();
  const discountOf = async () => (await check({ code, cart })).data.discount_amount;
  expect(await discountOf()).toBe(100);
  await ofReplica.query('select pg_wal_replay_pause()');
  const changed = await operator.call('PATCH', `/admin/campaigns/${product}`, {
    discount: { kind: 'percent', percent: 50 },
  });
  expect(changed.status).toBe(200);
  await until('the change is seen', async () => (await discountOf()) === 500);
  await until('the health shows why', async () => !(await follows()));
  expect((await send(`${read}/readyz`)).data).toMatchObject({ degraded: ['replica'] });
  await ofReplica.query('select pg_wal_replay_resume()');
  await until('the replica is used again', follows);
});

test.each([
  ['a wrong password', (url: URL) => Object.assign(url, { password: 'another' })],
  ['a database that does not exist', (url: URL) => Object.assign(url, { pathname: '/nothing' })],
  ['a port where nothing listens', (url: URL) => Object.assign(url, { port: '1' })],
  ['the primary itself', () => new URL(primary.url)],
])('%s: everything is read from the primary', async (_, change) => {
  const url = await startReader(change(new URL(replica.url)).href);
  const { code, product } = await open();
  await until('the filter knows it', async () => (await check({ code }, url)).status === 200);
  expect((await send(`${url}/flash-sale/campaign?product_id=${product}`)).status).toBe(200);
  expect((await send(`${url}/sale/${product}`)).status).toBe(200);
  expect(await replicaOf(url)).toMatchObject({ ok: false });
});
