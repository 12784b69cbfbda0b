import { expect, it } from '@jest/globals';
import slotOf from 'cluster-key-slot';
import type { ProductId } from '../../shared/domain/ids.js';
import { shardOfProduct, shardPrefix } from '../../shared/domain/shards.js';
import { type ClusterNode, RedisCluster, startAgain } from '../harness/cluster.js';
import type { Crowd } from '../harness/crowd.js';
import { until } from '../harness/until.js';
import { Stage } from './stage.js';

/** A cluster of three primaries and three replicas, whose servers are killed while campaigns of all shards sell. */
const SHARDS = 8;
const cluster = await RedisCluster.start();
const stage = await Stage.set({
  REDIS_URL: cluster.url,
  SHARDS: String(SHARDS),
  // A killed primary leaves its replica alone, so no second server could confirm a promise.
  REDIS_WAIT_REPLICAS: '0',
});

async function nodeOf(product: string): Promise<ClusterNode> {
  const [row] = await stage.query<{ shard: number | null }>('select shard from campaigns where product_id = $1', [
    product,
  ]);
  const shard = row?.shard ?? shardOfProduct(product as ProductId, SHARDS);
  return cluster.primaryOf(slotOf(shardPrefix(shard, SHARDS, true)));
}

/** Opens campaigns until each primary has one, and starts a crowd for each. */
async function sellOnEachNode(): Promise<{ product: string; node: ClusterNode; crowd: Crowd }[]> {
  const found = new Map<string, { product: string; node: ClusterNode }>();
  while (found.size < 3) {
    const product = await stage.openCampaign({ total_limit: 1_000_000 });
    const node = await nodeOf(product);
    found.set(node.id, { product, node });
  }
  const sales = [...found.values()].map((one) => ({ ...one, crowd: stage.crowd(one.product, 40, one.node.redis) }));
  for (const { crowd } of sales) crowd.start();
  await until('all campaigns sell', () => sales.every(({ crowd }) => crowd.completed.length >= 30));
  return sales;
}

it('a killed primary takes away its own shards alone, which its replica serves again', async () => {
  const [own, ...others] = await sellOnEachNode();
  if (!own) throw new Error('there is no campaign');
  await cluster.untilHealthy(3, 1);
  own.node.engine.kill('SIGKILL');
  await own.node.engine.exited;
  await until('its shards are away', async () => own.crowd.refused > 0);
  const readiness = await fetch(`${stage.url}/readyz`);
  const { data } = (await readiness.json()) as { data: { checks: Record<string, { ok: boolean; detail: string }> } };
  expect(readiness.status).toBe(200);
  const away = Object.entries(data.checks).filter(([name, { ok }]) => name.startsWith('shard_') && !ok);
  expect(away.length).toBeGreaterThan(0);
  expect(away.length).toBeLessThan(SHARDS);
  const sold = own.crowd.completed.length;
  await until('the campaign sells again', () => own.crowd.completed.length >= sold + 30);
  await startAgain(own.node);
  await Promise.all([own, ...others].map(({ crowd }) => crowd.finish()));
  for (const { crowd } of others) stage.expectServed(crowd);
  for (const { crowd, product } of [own, ...others]) await stage.expectNothingLost(crowd, product);
});

it('goes on after a failover that an operator asked for', async () => {
  await cluster.untilHealthy(3, 1);
  const [own, ...others] = await sellOnEachNode();
  if (!own) throw new Error('there is no campaign');
  const replica = await cluster.replicaOf(own.node);
  await replica.redis.call('CLUSTER', 'FAILOVER');
  await until('the replica is the primary', async () => (await nodeOf(own.product)).id === replica.id);
  const sold = own.crowd.completed.length;
  await until('the campaign sells there', () => own.crowd.completed.length >= sold + 30);
  await Promise.all([own, ...others].map(({ crowd }) => crowd.finish()));
  for (const { crowd } of others) stage.expectServed(crowd);
  for (const { crowd, product } of [own, ...others]) await stage.expectNothingLost(crowd, product);
});
