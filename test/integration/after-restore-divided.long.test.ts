import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { expect, it } from '@jest/globals';
import { isWhole } from '../../commands/reconcile/report.js';
import { projectRoot } from '../../shared/config/project-root.js';
import { readSharding } from '../../shared/postgres/installation.js';
import { keys } from '../../shared/redis/keys.js';
import { Breaking } from '../harness/breaking-database.js';
import { DividedRestore } from '../harness/divided-restore.js';
import type { DividedCampaign } from '../harness/divided-sale.js';
import { DividedSale } from '../harness/divided-sale.js';
import { goBack, takeBackup } from '../harness/postgres-back.js';
import { until } from '../harness/until.js';

/** Postgres is set back while divided campaigns are sold; the command makes it whole. */
const sale = await DividedSale.start();
const stage = new DividedRestore(sale);

const restock = (campaign: DividedCampaign, units: number) =>
  campaign.storeOf(0).campaigns.restock(campaign.product, units, 50, null, 'operator', '');

async function reservationsOf(campaign: DividedCampaign, bucket: number) {
  return (await campaign.reservations()).filter((one) => one.bucket === bucket && one.state === 'reserved');
}

/** Sells a campaign with a line. Before the backup, one transfer has arrived and one is on its way. */
async function openBeforeBackup(): Promise<DividedCampaign> {
  const campaign = await sale.open(20, true);
  for (const bucket of [0, 1, 2, 3]) await campaign.checkout(stage.userOf(campaign, bucket));
  await stage.move(campaign, 0, 1, 1);
  await campaign.storeOf(0).buckets.moveOut(campaign.product, 2, 1);
  await sale.persistAll();
  return campaign;
}

/** What Postgres loses: sales, places, promotions, payments, a restock, and transfers, of which one has not arrived. */
async function sellOn(campaign: DividedCampaign): Promise<void> {
  const { product } = campaign;
  await stage.rounds(campaign);
  await restock(campaign, 3);
  await stage.move(campaign, 1, 0, 2);
  for (let i = 0; i < 9; i += 1)
    for (const bucket of [0, 1, 2, 3]) await campaign.checkout(stage.userOf(campaign, bucket));
  await sale.persistAll();
  const [first, second] = await reservationsOf(campaign, 3);
  const [third] = await reservationsOf(campaign, 0);
  if (!first || !second || !third) throw new Error('the buckets have sold nothing');
  await campaign.storeOf(3).reservations.confirm(product, first.id, 'pay-1', { actor: '', trace: '' });
  await campaign.storeOf(3).reservations.release(product, second.id, null, '', { actor: '', trace: '' });
  await campaign.storeOf(0).reservations.release(product, third.id, null, '', { actor: '', trace: '' });
  await stage.rounds(campaign);
  const [fourth] = await reservationsOf(campaign, 2);
  if (!fourth) throw new Error('bucket 2 has sold nothing');
  await campaign.storeOf(2).reservations.release(product, fourth.id, null, '', { actor: '', trace: '' });
  expect((await campaign.storeOf(2).buckets.moveOut(product, 3, 1)).kind).toBe('moved');
  await sale.persistAll();
}

it('brings back sales, places, promotions, a restock and transfers of all buckets', async () => {
  const campaign = await openBeforeBackup();
  const backup = await takeBackup(sale.sql);
  await sellOn(campaign);
  const truth = await stage.rowsOf(campaign);
  expect(truth).toMatchObject({ transfers: expect.arrayContaining([expect.objectContaining({ arrived: false })]) });
  await goBack(sale.sql, backup);
  const before = await takeBackup(sale.sql);
  const found = await stage.repair(true);
  expect(await takeBackup(sale.sql)).toEqual(before);
  const campaigns = found.flatMap((one) => one.campaigns).filter(({ product }) => product === campaign.product);
  expect(campaigns.map(({ bucket }) => bucket)).toEqual(expect.arrayContaining([undefined, 0, 1, 2, 3]));
  expect(campaigns.find(({ bucket }) => bucket === undefined)).toMatchObject({ total: { redis: 23, postgres: 20 } });
  expect(campaigns.find(({ bucket }) => bucket === 2)).toMatchObject({ transfers: { left: 1, units: 1, arrived: 0 } });
  expect(campaigns.find(({ bucket }) => bucket === 0)?.transfers?.arrived).toBe(1);
  expect(campaigns.map(({ leftAlone }) => leftAlone)).toEqual([0, 0, 0, 0, 0]);
  expect(found.every(isWhole)).toBe(false);

  await stage.repair();
  expect(await stage.rowsOf(campaign)).toEqual(truth);
  await stage.expectWhole(campaign);
  expect((await stage.repair(true)).every(isWhole)).toBe(true);
  // Rounds and sales go on: the transfer arrives, and its unit is promoted.
  await stage.rounds(campaign);
  expect((await sale.table.inTransit(campaign.stored.id)).transfers).toEqual([]);
  await stage.expectWhole(campaign);
  for (const { index } of sale.shards) await sale.refill(index, campaign.stored);
  await stage.expectWhole(campaign);
});

it('fills in what the journals still have, and the events about it', async () => {
  const campaign = await openBeforeBackup();
  const backup = await takeBackup(sale.sql);
  await stage.rounds(campaign);
  await restock(campaign, 2);
  await stage.move(campaign, 1, 3, 1);
  await goBack(sale.sql, backup);
  // These entries are in the journals when the repair begins. Nothing writes them before.
  await restock(campaign, 3);
  await restock(campaign, 4);
  await campaign.checkout(stage.userOf(campaign, 2));
  expect((await campaign.storeOf(3).buckets.moveOut(campaign.product, 0, 2)).kind).toBe('moved');
  await stage.repair();
  const { rows } = await sale.sql.query(
    `select data -> 'delta' as delta, data -> 'total_limit' as total from outbox_events
     where product_id = $1 and type like '%restocked%' order by seq`,
    [campaign.product],
  );
  expect(rows).toEqual([
    { delta: 3, total: 25 },
    { delta: 4, total: 29 },
  ]);
  await stage.expectWhole(campaign);
  expect((await sale.table.inTransit(campaign.stored.id)).transfers).toEqual([
    { from: 3, to: 0, out: 1, units: 2, codes: [] },
  ]);
  await stage.rounds(campaign);
  expect((await sale.table.inTransit(campaign.stored.id)).transfers).toEqual([]);
  await stage.expectWhole(campaign);
});

it('brings back that a campaign was closed, and that units were removed', async () => {
  const campaign = await sale.open(4, true);
  const { product } = campaign;
  await sale.persistAll();
  const backup = await takeBackup(sale.sql);
  await restock(campaign, -1);
  for (let i = 0; i < 3; i += 1)
    for (const bucket of [1, 2, 3]) await campaign.checkout(stage.userOf(campaign, bucket));
  for (const bucket of [0, 1, 2, 3])
    await campaign.storeOf(bucket).campaigns.setStatus(product, 'close', 'operator', '');
  await sale.persistAll();
  const truth = await stage.rowsOf(campaign);
  expect(truth).toMatchObject({ campaign: [{ status: 'closed', total_limit: '3' }] });
  await goBack(sale.sql, backup);
  await stage.repair();
  expect(await stage.rowsOf(campaign)).toEqual(truth);
  await stage.expectWhole(campaign);
});

it('leaves the gap when it is interrupted, wherever that is, and can be repeated', async () => {
  const campaign = await openBeforeBackup();
  const backup = await takeBackup(sale.sql);
  await sellOn(campaign);
  const truth = await stage.rowsOf(campaign);
  await goBack(sale.sql, backup);
  const cursors = async () => (await sale.sql.query('select shard, last_id from journal_cursor order by shard')).rows;
  const before = await cursors();
  const breaking = Breaking.of(sale.urls.database);
  let statements = 0;
  for (;;) {
    breaking.left = statements;
    const outcome = await stage.repair(false, breaking).catch((error: Error) => error);
    if (!(outcome instanceof Error)) break;
    expect(outcome.message).toBe('interrupted');
    // No worker persists over the gap.
    expect(await cursors()).toEqual(before);
    statements += 17;
  }
  await breaking.close();
  expect(statements).toBeGreaterThan(60);
  expect(await stage.rowsOf(campaign)).toEqual(truth);
  await stage.expectWhole(campaign);
});

it('is consistent while users buy and units move', async () => {
  const campaign = await openBeforeBackup();
  const backup = await takeBackup(sale.sql);
  await sellOn(campaign);
  await goBack(sale.sql, backup);
  let running = true;
  const buy = async (bucket: number) => {
    while (running) {
      await campaign
        .storeOfUser(stage.userOf(campaign, bucket))
        .claims.reserve(campaign.claimOf(stage.userOf(campaign, bucket)));
      const [held] = await reservationsOf(campaign, bucket);
      if (held)
        await campaign
          .storeOf(bucket)
          .reservations.release(campaign.product, held.id, null, '', { actor: '', trace: '' });
      await campaign.storeOf(bucket).buckets.moveOut(campaign.product, (bucket + 1) % 4, 1);
    }
  };
  const crowd = [0, 1, 2, 3].map(buy);
  await stage.repair().finally(() => {
    running = false;
  });
  await Promise.all(crowd);
  await sale.persistAll();
  await stage.expectWhole(campaign);
  await stage.rounds(campaign);
  await stage.expectWhole(campaign);
});

it('brings back which codes of a pool have moved, as long as the buckets that gave them remember each transfer', async () => {
  const campaign = await sale.open(8, false, { type: 'pool' });
  const { product, stored } = campaign;
  await sale.issueCodes(stored, 8);
  for (const bucket of [0, 1, 2, 3]) await sale.learnCodes(stored, bucket);
  await sale.persistAll();
  const backup = await takeBackup(sale.sql);
  await stage.move(campaign, 0, 1, 1, 1);
  await stage.move(campaign, 0, 2, 0, 1);
  for (const bucket of [1, 2, 3]) await campaign.checkout(stage.userOf(campaign, bucket));
  expect((await campaign.storeOf(1).buckets.moveOut(product, 3, 1, 2)).kind).toBe('moved');
  await sale.persistAll();
  const truth = await stage.rowsOf(campaign);
  await goBack(sale.sql, backup);
  const giver = sale.shards[sale.map.shardOf(product, 0)]?.redis;
  const gave = (await giver?.hget(keys.campaign(product), 'gave')) ?? '';
  await giver?.hset(keys.campaign(product), 'gave', JSON.stringify(JSON.parse(gave).slice(1)));
  await expect(stage.repair()).rejects.toMatchObject({ name: 'BucketsDiffer' });
  await giver?.hset(keys.campaign(product), 'gave', gave);
  await stage.repair();
  expect(await stage.rowsOf(campaign)).toEqual(truth);
  await stage.expectWhole(campaign);
  for (const { index } of sale.shards) await sale.refill(index, stored);
  for (let i = 0; i < 3; i += 1)
    for (const bucket of [0, 1, 2, 3]) await campaign.checkout(stage.userOf(campaign, bucket));
  await sale.persistAll();
  // Each unit has got a code of its own.
  const { rows } = await sale.sql.query(
    'select count(distinct code_no)::int as codes from redemptions where campaign_id = $1',
    [stored.id],
  );
  expect(rows).toEqual([{ codes: 8 }]);
  await stage.expectWhole(campaign);
});

it('writes nothing when the buckets contradict each other or Postgres', async () => {
  const campaign = await openBeforeBackup();
  const { product } = campaign;
  const giver = sale.shards[sale.map.shardOf(product, 0)]?.redis;
  if (!giver) throw new Error('bucket 0 has no shard');
  const before = await takeBackup(sale.sql);
  const field = async (name: string, value: string | number) => {
    const known = (await giver.hget(keys.campaign(product), name)) ?? '';
    await giver.hset(keys.campaign(product), name, value);
    await expect(stage.repair()).rejects.toMatchObject({ name: 'BucketsDiffer' });
    await giver.hset(keys.campaign(product), name, known);
  };
  // Bucket 1 has a transfer that bucket 0 has not given; Postgres has more of them than Redis; units are unknown.
  await field('moved_out', 0);
  await field('moved_out', 1);
  await field('moved_out', 3);
  expect(await takeBackup(sale.sql)).toEqual(before);
  await stage.repair();
  await stage.expectWhole(campaign);
});

/** Runs the command as an operator does. @param moment when it is killed; null = it may end by itself */
async function command(args: string[], moment: (() => Promise<unknown>) | null = null) {
  const main = join(projectRoot(), 'dist/commands/reconcile.js');
  const env = { ...process.env, REDIS_URL: sale.urls.redis, DATABASE_URL: sale.urls.database };
  const child = spawn(process.execPath, [main, '--after-restore', ...args], { env, stdio: ['ignore', 'pipe', 'pipe'] });
  let out = '';
  for (const output of [child.stdout, child.stderr]) output.on('data', (chunk) => (out += String(chunk)));
  const closed = once(child, 'close');
  if (moment) await moment().finally(() => child.kill('SIGKILL'));
  const [code] = (await closed) as [number | null];
  return { code, out };
}

it('creates a divided campaign again that Postgres does not know, also when the command is killed and repeated', async () => {
  const backup = await takeBackup(sale.sql);
  const campaign = await openBeforeBackup();
  await sale.sql.query('update campaigns set shard = $2 where product_id = $1', [
    campaign.product,
    sale.map.shardOf(campaign.product, 0),
  ]);
  await sellOn(campaign);
  const truth = await stage.rowsOf(campaign);
  await sale.sql.query(
    `insert into journal_processes (process_id, kind, seen_at, generation, unsaved, map_version)
     values (gen_random_uuid(), 'api', now(), 1, 0, 41)`,
  );
  const { rows: processes } = await sale.sql.query('select * from journal_processes');
  await goBack(sale.sql, {
    ...backup,
    tables: new Map([...backup.tables, ['journal_processes', JSON.stringify(processes)]]),
  });

  const before = await takeBackup(sale.sql);
  const dry = await command(['--dry-run']);
  expect(dry.out).toContain(`campaign ${campaign.product}\n  campaign: not in Postgres; created again`);
  expect(dry.out).toMatch(
    new RegExp(`campaign ${campaign.product}, bucket 2\n(  .*\n)*  transfers to other buckets missing`),
  );
  expect(dry.code).toBe(1);
  // The command waits for the lock when it has written some tables, and is killed.
  await sale.sql.query('begin');
  await sale.sql.query('lock table stock_transfers in share mode');
  await command([], () =>
    until('the command waits', async () => {
      const { rows } = await sale.database.query(
        "select 1 from pg_stat_activity where datname = current_database() and application_name = 'doorbuster-reconcile' and wait_event_type = 'Lock'",
      );
      return rows.length > 0;
    }),
  );
  await sale.sql.query('rollback');
  expect((await takeBackup(sale.sql)).tables).toEqual(before.tables);
  const written = await command([]);
  expect([written.code, written.out]).toEqual([0, expect.stringContaining(`ok     ${campaign.product}`)]);
  expect(await stage.rowsOf(campaign)).toEqual(truth);
  const known = await readSharding(sale.database);
  expect(known.buckets.get(campaign.product)).toMatchObject({ id: campaign.stored.id, buckets: 4 });
  expect(known.moved.get(campaign.product)).toBe(sale.map.shardOf(campaign.product, 0));
  expect(known.version).toBeGreaterThan(41);
  expect((await command(['--dry-run'])).out).toContain('Postgres lacks nothing');
  await stage.rounds(campaign);
  await stage.expectWhole(campaign);
});
