import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import pg from 'pg';
import { whereCovered } from '../../commands/ledger/where-covered.js';
import { projectRoot } from '../../shared/config/project-root.js';
import { compareCampaign } from '../../shared/image/compare-campaign.js';
import { CampaignsTable } from '../../shared/postgres/campaigns.js';
import { ReadReplica } from '../../shared/postgres/read-replica.js';
import { RedemptionsTable } from '../../shared/postgres/redemptions.js';
import { JournalCursor } from '../../shared/projection/journal-cursor.js';
import { Journal } from '../../shared/redis/journal.js';
import { ScriptRunner } from '../../shared/redis/script-runner.js';
import { SaleReader } from '../../shared/sale/sale-reader.js';
import { atEnd } from '../harness/cleanup.js';
import { Operator } from '../harness/clients.js';
import { startTestRedis } from '../harness/engines.js';
import { connectDatabase } from '../harness/persistence.js';
import { startPostgresReplica } from '../harness/postgres-replica.js';
import { connectToRedis } from '../harness/sale.js';
import { ADMIN_SECRET, serviceEnv, startApiProcess, startWorkerProcess } from '../harness/service.js';
import { startStagePostgres } from '../harness/stage-postgres.js';
import { until } from '../harness/until.js';
import { ledgerCommand } from '../harness/verdict.js';

const folder = await mkdtemp(join(tmpdir(), 'doorbuster-replica-'));
atEnd('the folder', () => rm(folder, { recursive: true, force: true }));
const folders = { primary: join(folder, 'primary'), replica: join(folder, 'replica') };
const primary = await startStagePostgres(folders.primary, null);
atEnd('the primary', () => primary.stop());
const replica = await startPostgresReplica(primary, folders);
atEnd('the replica', () => replica.stop());
const [ofPrimary, ofReplica] = [connectDatabase(primary.url), connectDatabase(replica.url)];

/** A read with a short wait, for a replica that does not reach the position. */
function readsWith(limits: { replicaWaitMs: number; replicaAwayMs: number }, standby = ofReplica) {
  const reasons: string[] = [];
  const reads = new ReadReplica(ofPrimary, standby, limits, (reason) => reasons.push(reason));
  return { reasons, current: () => reads.current() };
}
const PATIENT = { replicaWaitMs: 60_000, replicaAwayMs: 0 };
const HASTY = { replicaWaitMs: 100, replicaAwayMs: 0 };

let moved = 0;
/** Moves the cursor, as a batch of the persister does. */
async function move(): Promise<string> {
  moved += 1;
  await ofPrimary.query('update journal_cursor set last_id = $1', [`5-${moved}`]);
  return `5-${moved}`;
}
const pause = () => ofReplica.query('select pg_wal_replay_pause()');
const resume = () => ofReplica.query('select pg_wal_replay_resume()');

test('a read waits until the replica has everything that was written before', async () => {
  const { reasons, current } = readsWith(PATIENT);
  for (let i = 0; i < 20; i += 1) {
    const cursor = await move();
    expect([await current(), reasons]).toEqual([{ source: 'replica', asOf: cursor }, []]);
    expect((await ofReplica.query('select last_id from journal_cursor')).rows).toEqual([{ last_id: cursor }]);
  }
  await pause();
  const cursor = await move();
  const waiting = current();
  await resume();
  expect(await waiting).toEqual({ source: 'replica', asOf: cursor });
  expect(reasons).toEqual([]);
});

test('the primary is read while the replica is behind, and a replica that failed is left alone for a while', async () => {
  const { reasons, current } = readsWith(HASTY);
  const resting = readsWith({ ...HASTY, replicaAwayMs: 600_000 });
  await pause();
  const cursor = await move();
  expect(await current()).toEqual({ source: 'primary', asOf: cursor });
  expect(await resting.current()).toEqual({ source: 'primary', asOf: cursor });
  expect(reasons).toEqual(['the replica is more than 100 ms behind']);
  await resume();
  expect(await readsWith(PATIENT).current()).toEqual({ source: 'replica', asOf: cursor });
  expect(await resting.current()).toEqual({ source: 'primary', asOf: cursor });
});

test('a server that is no replica is not read', async () => {
  const { reasons, current } = readsWith(PATIENT, ofPrimary);
  expect(await current()).toMatchObject({ source: 'primary' });
  expect(reasons).toEqual(['DATABASE_READ_URL is not a replica']);
});

test('the replica of another database is not read', async () => {
  await ofPrimary.query('create database another');
  const another = connectDatabase(Object.assign(new URL(primary.url), { pathname: '/another' }).href);
  await another.query("create table journal_cursor as select 0 as shard, '9-9'::text as last_id");
  const reasons: string[] = [];
  const reads = new ReadReplica(another, ofReplica, PATIENT, (reason) => reasons.push(reason));
  expect(await reads.current()).toEqual({ source: 'primary', asOf: '9-9' });
  expect(reasons).toEqual(['DATABASE_READ_URL is the replica of another database']);
});

/** A service with a campaign, of which two users have a unit; started by the first test that needs it. */
async function serve() {
  await ofPrimary.query("update journal_cursor set last_id = '0-0'");
  const { url: redisUrl, client: redis } = await startTestRedis();
  const env = serviceEnv(redisUrl, primary.url, { DATABASE_READ_URL: replica.url });
  const [{ url }] = await Promise.all([startApiProcess(env), startWorkerProcess(env)]);
  const product = await new Operator(url).openCampaign({ total_limit: 9, require_attestation: false });
  const client = new pg.Client(primary.url);
  await client.connect();
  atEnd('a client', () => client.end());
  const take = async (...users: string[]) => {
    for (const user of users) {
      const body = JSON.stringify({ product_id: product, user_id: user, qty: 1, idempotency_key: randomUUID() });
      const headers = { 'content-type': 'application/json' };
      expect((await fetch(`${url}/flash-sale/checkout`, { method: 'POST', body, headers })).status).toBe(200);
    }
    await until('all are persisted', async () => (await redis.xlen('db1:journal')) === 0);
  };
  await take('ann', 'bob');
  return { env, url, redisUrl, product, client, take };
}
const UNCOVERED = /the journal in Redis no longer has all entries/;
let serving: ReturnType<typeof serve> | undefined;
const served = () => (serving ??= serve());

test('operators read from the replica what was written before, and learn how complete it is', async () => {
  const { env, url, product, client } = await served();
  const headers = { authorization: `Bearer ${ADMIN_SECRET}` };
  const { id } = (await client.query('select campaign_id as id from campaigns where product_id = $1', [product]))
    .rows[0];
  const readsOfReplica = async () =>
    Number(
      (
        await ofReplica.query<{ n: string }>(
          "select count(*) as n from pg_stat_activity where datname = current_database() and application_name like 'doorbuster-api-replica%'",
        )
      ).rows[0]?.n,
    );
  const { last_id: cursor } = (await client.query('select last_id from journal_cursor')).rows[0];
  const page = await fetch(`${url}/admin/campaigns/${id}/redemptions`, { headers });
  expect(page.headers.get('doorbuster-as-of')).toBe(cursor);
  expect(((await page.json()) as { data: unknown[] }).data).toHaveLength(2);
  const csv = await fetch(`${url}/admin/campaigns/${id}/redemptions?format=csv`, { headers });
  expect(csv.headers.get('doorbuster-as-of')).toBe(cursor);
  expect((await csv.text()).trim().split('\n')).toHaveLength(3);
  const codes = await fetch(`${url}/admin/campaigns/${id}/codes`, { headers });
  expect(codes.headers.get('doorbuster-as-of')).toBe(cursor);
  expect(await codes.text()).toContain('code,user_id');
  expect(await readsOfReplica()).toBeGreaterThanOrEqual(2);

  const { code, verdict } = await ledgerCommand(env, product);
  expect(code).toBe(0);
  expect(verdict).toMatchObject({ confirmed: 2, lost: 0, drift: 0, read_from: 'replica', as_of: cursor });
});

test('the ledger finds nothing lost where a replica has stopped: it cannot know', async () => {
  const { env, product, take } = await served();
  await pause();
  await take('cid', 'dan', 'eve');
  const { DATABASE_READ_URL: _, ...plain } = env;
  const stalled = await ledgerCommand({ ...plain, DATABASE_URL: replica.url }, product);
  expect(stalled).toMatchObject({ code: 2, verdict: {} });
  expect(stalled.stderr).toMatch(UNCOVERED);
  await resume();
});

test('the ledger reads the primary when the replica stops after it was chosen', async () => {
  const { redisUrl, product, take } = await served();
  const redis = await connectToRedis(redisUrl);
  const sale = new SaleReader(new ScriptRunner(redis, join(projectRoot(), 'lua')));
  const reasons: string[] = [];
  await pause();
  await take('fay');
  const verdict = await whereCovered(
    [
      { database: ofReplica, read: { read_from: 'replica' } },
      { database: ofPrimary, read: { read_from: 'primary' } },
    ],
    async (database) => {
      const campaign = await new CampaignsTable(database).find(product);
      if (!campaign) throw new Error('the campaign is missing');
      const part = { sale, journal: new Journal(redis), cursor: new JournalCursor(database) };
      return compareCampaign({ parts: [part], redemptions: new RedemptionsTable(database) }, campaign);
    },
    (reason) => reasons.push(reason),
  );
  await resume();
  expect(verdict).toMatchObject({ confirmed: 6, persisted: 6, lost: 0, drift: 0, read_from: 'primary' });
  expect(reasons).toEqual([expect.stringMatching(UNCOVERED)]);
});

test('without the replica the primary is read', async () => {
  const { url, client, product } = await served();
  const headers = { authorization: `Bearer ${ADMIN_SECRET}` };
  const { id } = (await client.query('select campaign_id as id from campaigns where product_id = $1', [product]))
    .rows[0];
  const { last_id: cursor } = (await client.query('select last_id from journal_cursor')).rows[0];
  await replica.stop();
  const without = await fetch(`${url}/admin/campaigns/${id}/redemptions`, { headers });
  expect(without.status).toBe(200);
  expect(without.headers.get('doorbuster-as-of')).toBe(cursor);
  expect(((await without.json()) as { data: unknown[] }).data).toHaveLength(6);
});
