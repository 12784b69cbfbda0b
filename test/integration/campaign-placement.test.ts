import { expect, test } from '@jest/globals';
import { CampaignPlacement } from '../../api/admin/campaign-placement.js';
import type { ProductId } from '../../shared/domain/ids.js';
import type { StoredCampaign } from '../../shared/postgres/campaigns.js';
import { readSharding } from '../../shared/postgres/installation.js';
import { ShardMap } from '../../shared/shards/shard-map.js';
import { changeShards } from '../../worker/reshard/change-shards.js';
import { moveCampaign } from '../../worker/reshard/move-campaign.js';
import { createTestDatabase } from '../harness/engines.js';
import { connectDatabase } from '../harness/persistence.js';
import { until } from '../harness/until.js';

const { url, client: sql } = await createTestDatabase();
const database = connectDatabase(url);
const map = new ShardMap(16);
const placement = new CampaignPlacement({
  database,
  map,
  histories: { allKnowMap: async () => true },
  keepInRedis: async () => {},
  processId: 'api',
  aliveMs: () => 1_000,
});

await sql.query('update installation set shards = 16');
await sql.query("insert into journal_histories (generation, server, after_id, reason) values (1, 'a', '0-0', 'test')");

type Inserted = { productId: ProductId; buckets: number; rules: Record<string, unknown> };

let inserted = 0;

async function insert(status: string, buckets = 1, rules: Inserted['rules'] = {}): Promise<Inserted> {
  inserted += 1;
  // The name decides the shard. With random ones, one run in some hundreds would spread differently.
  const product = `sale-${inserted}` as ProductId;
  await sql.query(
    `insert into campaigns (campaign_id, product_id, name, type, per_user_limit, max_qty, starts_at, time_zone, hold_seconds,
       waiting_room, confirmation, late_payment, refund_policy, require_attestation, rules, status, buckets)
     values (gen_random_uuid(), $1, 'a', 'shared', 9, 9, now(), 'UTC', 60, '{}', 'fast', 'refuse', 'burn', false, $4, $2, $3)`,
    [product, status, buckets, rules],
  );
  return { productId: product, buckets, rules };
}

async function create(status = 'open'): Promise<ProductId> {
  const campaign = await insert(status);
  await placement.untilKnown(await placement.place(database, campaign));
  return campaign.productId;
}

test('a hundred campaigns spread over the shards without one that has more than its share', async () => {
  // Closed campaigns cost nothing, so they take no place.
  for (let i = 0; i < 20; i += 1) await create('closed');
  const counts = Array.from({ length: 16 }, () => 0);
  for (let i = 0; i < 100; i += 1) {
    const shard = map.shardOf(await create(), 0);
    counts[shard] = (counts[shard] ?? 0) + 1;
  }
  expect(Math.max(...counts)).toBeLessThanOrEqual(7);
  const { version, moved } = await readSharding(database);
  expect(map.version).toBe(version);
  // Most stay where their hash puts them, so that the map is short.
  expect(moved.size).toBeLessThan(60);
});

test('each creation gives the map a version, so that a Postgres that has lost one creates no further campaign', async () => {
  const before = (await readSharding(database)).version;
  const { version } = await placement.place(database, await insert('open'));
  expect(Number(version)).toBeGreaterThan(before);
  await sql.query('update installation set map_version = $1', [before]);
  map.sees(Number(version));
  await expect(placement.place(database, await insert('open'))).rejects.toThrow('it was set back');
  await sql.query('update installation set map_version = $1', [version]);
});

test('a campaign whose codes combine with no others waits until all processes know of it', async () => {
  map.replace(await readSharding(database));
  const rules = { stacking: { exclusive: true } };
  const combines = { stacking: { exclusive: false } };
  expect(await placement.exclude(database, rules, rules)).toBe(null);
  expect(await placement.exclude(database, rules, combines)).toBe(null);
  const version = await placement.exclude(database, combines, rules);
  expect(version).toBeGreaterThan(map.version);
  expect(map.mayExclude).toBe(false);
  const campaign = await insert('open', 1, rules);
  expect(await placement.place(database, campaign)).toMatchObject({ mustBeKnown: true });
  await placement.untilKnown({ version, mustBeKnown: true });
  expect(map.mayExclude).toBe(true);
});

test('no campaign is placed for a number of shards that changes at that moment', async () => {
  const campaign = await insert('open');
  await sql.query('begin');
  await sql.query('update installation set shards = 4');
  const placing = placement.place(database, campaign);
  const waits = "select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
  await until('it waits', async () => (await sql.query(waits)).rows.length > 0);
  await sql.query('commit');
  await expect(placing).rejects.toThrow('this installation has 4 shards, and 16 are set here');
  await expect(placing).rejects.toMatchObject({ name: 'EngineUnavailable' });
  await sql.query('update installation set shards = 16');
});

test('the number of shards does not change when a campaign was created meanwhile that needs more', async () => {
  const created: ProductId[] = [];
  const retire = async () => {
    created.push((await insert('open', 8)).productId);
    return 1;
  };
  const clear = () => Promise.reject(new Error('nothing may be removed'));
  const changing = changeShards(database, 'reshard', [{ retire, keep: clear, clear }], 4, () => {});
  const refusal = await changing.catch(String);
  expect(refusal).toContain(`${created[0]} is divided into 8 buckets, and each needs a shard of its own`);
  expect(await readSharding(database)).toMatchObject({ shards: 16, left: null });
});

test('of two moves of a campaign the one that comes too late changes nothing', async () => {
  const product = await create();
  map.replace(await readSharding(database));
  const home = map.shardOf(product, 0);
  const [first, second] = [(home + 1) % 16, (home + 2) % 16];
  const arrived: number[] = [];
  const move = (from: number, to: number) =>
    moveCampaign({ productId: product } as StoredCampaign, {
      processId: 'reshard',
      shards: 16,
      seen: () => map.latest,
      from: {
        index: from,
        // The shard gives it away in the transaction that records the move.
        giveAway: async (_, { record, arrive }) => {
          await database.transaction(record);
          await arrive();
        },
        histories: { allKnowMap: async () => true },
        aliveMs: () => 1_000,
      },
      to: { index: to, refill: async () => void arrived.push(to) },
      keepInRedis: async () => {},
      say: () => {},
    });
  await move(home, first);
  const { version } = await readSharding(database);
  // It has begun before, so it takes the campaign for one of its first shard.
  await expect(move(home, second)).rejects.toThrow('another command has moved it meanwhile; nothing was changed');
  const after = await readSharding(database);
  expect([after.version, after.moved.get(product)]).toEqual([version, first]);
  await move(first, home);
  expect(arrived).toEqual([first, home]);
});
