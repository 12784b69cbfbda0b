import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { RedemptionPartitions } from '../../commands/partitions/redemption-partitions.js';
import { projectRoot } from '../../shared/config/project-root.js';
import type { Database } from '../../shared/postgres/pool.js';
import { TestArchive } from '../harness/archive.js';
import type { TestCampaign } from '../harness/campaign.js';
import { connectDatabase, startPersistence } from '../harness/persistence.js';
import { startSale } from '../harness/sale.js';

const sale = await startSale();
const store = await startPersistence(sale);
const partitions = new RedemptionPartitions(store.database);

async function openGiant(terms: Parameters<typeof store.openCampaign>[0] = {}): Promise<TestCampaign> {
  const campaign = await store.storeCampaign(terms);
  await partitions.add(await storedOf(campaign));
  return sale.load(campaign);
}

const storedOf = async (campaign: TestCampaign) => {
  const stored = await store.campaigns.find(campaign.product);
  if (!stored) throw new Error('the campaign is not in Postgres');
  return stored;
};
const partitionOf = async (id: string) =>
  (await store.sql.query('select tableoid::regclass::text as name from redemptions where redemption_id = $1', [id]))
    .rows[0]?.name;

async function runCommand(...args: string[]): Promise<{ code: number | null; output: string }> {
  const child = spawn(process.execPath, [join(projectRoot(), 'dist/commands/partitions.js'), ...args], {
    env: { PATH: process.env.PATH, DATABASE_URL: store.url, REDIS_URL: sale.engine.url },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += String(chunk)));
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, output };
}

test('a campaign of its own partition has its rows there, under the same guards', async () => {
  const giant = await openGiant({ totalLimit: 3, perUserLimit: 2 });
  const other = await store.openCampaign();
  const [id, others] = [await giant.take('ann'), await other.take('ann')];
  await store.persist();
  await giant.confirm(id);
  await store.persist();
  expect(await partitionOf(id)).toBe(`redemptions_c${giant.terms.no}`);
  expect(await partitionOf(others)).toBe('redemptions_shared');
  expect(await storedOf(giant)).toMatchObject({ redeemed: 1, held: 0, reservations: 1 });
  const reasonOf = async (reservation: string) =>
    (await store.sql.query('select status, reason from redemptions where redemption_id = $1', [reservation])).rows[0];
  const insert = (user: string) => store.insertByHand(giant, { user, slot: 2 });
  await insert('ann');
  const again = await giant.take('ann');
  await store.persist();
  expect(await reasonOf(again)).toEqual({ status: 'voided', reason: 'redemptions_one_per_allowance' });
  await insert('bob');
  await expect(insert('cid')).rejects.toMatchObject({ constraint: 'campaigns_cap' });
  await expect(store.sql.query('delete from campaigns where campaign_id = $1', [giant.terms.id])).rejects.toMatchObject(
    {
      constraint: 'redemptions_campaign_id_fkey',
    },
  );
});

test('codes of two partitions exclude each other on an order', async () => {
  const [giant, other] = [await openGiant(), await store.openCampaign()];
  const insert = (campaign: TestCampaign, stacking: string, user: string) =>
    store.sql.query(
      `insert into redemptions (redemption_id, campaign_id, user_id, order_id, qty, slot, status, reserved_at, stacking)
       values (gen_random_uuid(), $1, $3, 'cart', 1, 1, 'reserved', now(), $2)`,
      [campaign.terms.id, stacking, user],
    );
  await insert(giant, 'group:a', 'ann');
  await expect(insert(other, 'group:a', 'ann')).rejects.toMatchObject({ constraint: 'redemptions_one_per_order' });
  await expect(insert(other, 'exclusive', 'ann')).rejects.toMatchObject({ constraint: 'redemptions_combinable' });
  await insert(other, 'group:b', 'ann');
  await insert(giant, 'combines', 'bob');
  await insert(other, 'combines', 'bob');
});

/** A connection reports its statistics at the latest when it ends. */
async function endConnections(): Promise<void> {
  await store.sql.query(
    `select pg_terminate_backend(pid, 10000) from pg_stat_activity
     where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'`,
  );
  await store.sql.query('select pg_stat_force_next_flush(), pg_stat_clear_snapshot()');
}

/** Scans of the partition's table and indexes by connections that were closed. */
async function scansOf(name: string): Promise<number> {
  const { rows } = await store.sql.query(
    'select coalesce(seq_scan, 0) + coalesce(idx_scan, 0) as scans from pg_stat_user_tables where relname = $1',
    [name],
  );
  return Number(rows[0]?.scans);
}

test('what the worker writes for one campaign reads no partition of another', async () => {
  const [giant, other] = [await openGiant(), await store.openCampaign({ holdSeconds: 600, perUserLimit: 9 })];
  await giant.take('ann');
  await store.persist();
  const [own, shared] = [`redemptions_c${giant.terms.no}`, 'redemptions_shared'];
  await endConnections();
  const [ownBefore, sharedBefore] = [await scansOf(own), await scansOf(shared)];
  const database: Database = connectDatabase(store.url);
  const persist = store.persistWith({ database });
  const ids = [];
  for (let i = 0; i < 3; i += 1) ids.push(await other.take('bob'));
  await store.persist(persist);
  await other.confirm(String(ids[0]), 'pay-1');
  await other.confirm(String(ids[0]), 'pay-2');
  await other.release(String(ids[1]));
  ids.push(await other.take('cid'));
  await store.persist(persist);
  await endConnections();
  expect(await scansOf(shared)).toBeGreaterThan(sharedBefore);
  expect(await scansOf(own)).toBe(ownBefore);
});

test('a campaign with reservations gets no partition', async () => {
  const campaign = await store.openCampaign();
  await campaign.take('ann');
  await store.persist();
  await expect(partitions.add(await storedOf(campaign))).rejects.toThrow('has 1 reservations already');
  expect(await runCommand('drop', campaign.product, '--yes')).toMatchObject({ code: 1 });
});

test('the reservations of a closed campaign are dropped after a dry run, and its counters stay', async () => {
  const archive = new TestArchive(sale, store);
  const giant = await openGiant();
  const id = await giant.take('ann');
  await giant.confirm(id);
  await store.persist();
  expect(await runCommand('drop', giant.product, '--yes')).toMatchObject({
    code: 1,
    output: expect.stringContaining('Close it first'),
  });
  await giant.setStatus('close');
  await store.persist();
  expect(await runCommand('drop', giant.product, '--yes')).toMatchObject({
    code: 1,
    output: expect.stringContaining('Redis still has its reservations'),
  });
  await archive.closeAndArchive(giant);
  expect(await runCommand('drop', giant.product, '--yes')).toMatchObject({
    code: 1,
    output: expect.stringContaining('have not been sent'),
  });
  const { rows } = await store.sql.query('select max(seq) as last from outbox');
  await sale.redis.xadd('db1:events', `${rows[0].last}-0`, 'id', 'x');
  const dry = await runCommand('drop', giant.product);
  expect(dry).toMatchObject({ code: 0, output: expect.stringContaining('1 reservations of') });
  expect(await partitionOf(id)).toBe(`redemptions_c${giant.terms.no}`);
  expect(await runCommand('drop', giant.product, '--yes')).toEqual({
    code: 0,
    output: `dropped 1 reservations of ${giant.product}\n`,
  });
  expect(await partitionOf(id)).toBeUndefined();
  expect((await partitions.list()).map(({ no }) => no)).not.toContain(giant.terms.no);
  const stored = await storedOf(giant);
  expect(stored).toMatchObject({ redeemed: 1, reservations: 1, redemptionsDroppedAt: expect.any(Date) });
  expect(await store.verdictOf(giant)).toMatchObject({ lost: 0, drift: 0, confirmed: 1 });
  const events = await store.sql.query('select type from outbox_events where campaign_id = $1 order by seq', [
    giant.terms.id,
  ]);
  expect(events.rows.filter(({ type }) => /redemption/.test(type))).toEqual([]);
  expect((await runCommand('drop', giant.product, '--yes')).output).toContain('were dropped at');
});
