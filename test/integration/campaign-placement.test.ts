import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import type { ProductId } from '../../shared/domain/ids.js';
import { readSharding } from '../../shared/postgres/installation.js';
import { CampaignPlacement } from '../../shared/shards/campaign-placement.js';
import { ShardMap } from '../../shared/shards/shard-map.js';
import { createTestDatabase } from '../harness/engines.js';
import { connectDatabase } from '../harness/persistence.js';

const { url, client: sql } = await createTestDatabase();
const database = connectDatabase(url);
const map = new ShardMap(16);
const placement = new CampaignPlacement({
  database,
  map,
  histories: { allKnowMap: async () => true },
  processId: 'api',
  aliveMs: () => 1_000,
});

async function create(status = 'open'): Promise<ProductId> {
  const product = `sale-${randomUUID()}` as ProductId;
  await sql.query(
    `insert into campaigns (campaign_id, product_id, name, type, per_user_limit, max_qty, starts_at, time_zone, hold_seconds,
       waiting_room, confirmation, late_payment, refund_policy, require_attestation, rules, status)
     values (gen_random_uuid(), $1, 'a', 'shared', 9, 9, now(), 'UTC', 60, '{}', 'fast', 'refuse', 'burn', false, '{}', $2)`,
    [product, status],
  );
  const version = await placement.place(database, product);
  if (version !== null) await placement.untilKnown(version);
  return product;
}

test('a hundred campaigns spread over the shards without one that has more than its share', async () => {
  // Closed campaigns cost nothing, so they take no place.
  for (let i = 0; i < 20; i += 1) await create('closed');
  const counts = Array.from({ length: 16 }, () => 0);
  for (let i = 0; i < 100; i += 1) {
    const shard = map.shardOf(await create());
    counts[shard] = (counts[shard] ?? 0) + 1;
  }
  expect(Math.max(...counts)).toBeLessThanOrEqual(7);
  const { version, moved } = await readSharding(database);
  expect(map.version).toBe(version);
  // Most stay where their hash puts them, so that the map is short.
  expect(moved.size).toBeLessThan(60);
});
