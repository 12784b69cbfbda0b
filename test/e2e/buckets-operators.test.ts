import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { bucketOfUser, shardOfBucket } from '../../shared/domain/buckets.js';
import type { ProductId, UserId } from '../../shared/domain/ids.js';
import { shardOfProduct } from '../../shared/domain/shards.js';
import { Operator, PaymentService, type Shopper } from '../harness/clients.js';
import { startService } from '../harness/service.js';
import { connectToShards } from '../harness/shard-connections.js';
import { arrive, checkoutAtOnce, countStatuses, range } from '../harness/shoppers.js';
import { until } from '../harness/until.js';

/** What operators see of campaigns that are divided into four buckets in four shards, and do about them. */
const SHARDS = 4;
const BUCKETS = 4;
const service = await startService({ SHARDS: String(SHARDS) });
const operator = new Operator(service.url);
const payments = new PaymentService(service.url);
const connections = connectToShards(service.redis.url, SHARDS);

const openDivided = (terms: Record<string, unknown> = {}) =>
  operator.openCampaign({ total_limit: 4, hold_seconds: 900, buckets: BUCKETS, require_attestation: false, ...terms });

/** One user of each bucket. */
function oneOfEach(product: string): Shopper[] {
  return range(0, BUCKETS - 1).map((bucket) => {
    for (;;) {
      const shopper = arrive(service.url, product);
      if (bucketOfUser(shopper.user as UserId, BUCKETS) === bucket) return shopper;
    }
  });
}

async function partitionsCommand(...args: string[]): Promise<{ code: number | null; output: string }> {
  const child = spawn(process.execPath, [join(process.cwd(), 'dist/commands/partitions.js'), ...args], {
    env: { ...process.env, ...service.env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += String(chunk)));
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, output };
}

test('release and refund reservations of every bucket, also where responses wait for Postgres', async () => {
  const product = await openDivided({ confirmation: 'durable', total_limit: 8 });
  const act = (id: unknown, action: string) =>
    operator.call('POST', `/admin/reservations/${id}/${action}`, { reason: 'asked for it' });
  for (const shopper of oneOfEach(product)) {
    const [released, refunded] = [await shopper.checkout(), await oneLike(product, shopper).checkout()];
    expect(await act(released.data.reservation_id, 'release')).toMatchObject({ status: 200 });
    expect(await payments.confirm(String(refunded.data.reservation_id), 'pay-1')).toMatchObject({ status: 200 });
    expect(await act(refunded.data.reservation_id, 'refund')).toMatchObject({ status: 200 });
  }
});

/** Another user of the same bucket. */
const oneLike = (product: string, { user }: Shopper): Shopper =>
  oneOfEach(product)[bucketOfUser(user as UserId, BUCKETS)] as Shopper;

test('the metrics and the sums have the units and the users of all buckets', async () => {
  const product = await openDivided({ waiting_room: { enabled: true } });
  expect(countStatuses(await checkoutAtOnce(oneOfEach(product)))).toEqual({ 200: BUCKETS });
  expect(countStatuses(await checkoutAtOnce(oneOfEach(product)))).toEqual({ 202: BUCKETS });
  const series = (name: string, labels = '') => `doorbuster_campaign_${name}{campaign="${product}"${labels}}`;
  await until('the metrics have them', async () => {
    const text = await (await fetch(`${service.url}/metrics`)).text();
    return (
      text.includes(`${series('units', ',state="held"')} ${BUCKETS}\n`) &&
      text.includes(`${series('waiting_users')} ${BUCKETS}\n`)
    );
  });
  await until('the sums have them', async () => {
    const { data } = await operator.call('GET', '/admin/overview?limit=1');
    return data.totals.waiting === BUCKETS;
  });
});

test('the rows of a campaign are not dropped before every bucket is archived', async () => {
  const product = await openDivided({ total_limit: 8 });
  expect(await partitionsCommand('add', product)).toMatchObject({ code: 0 });
  for (const answer of await checkoutAtOnce(oneOfEach(product)))
    expect(await payments.confirm(String(answer.data.reservation_id), 'pay-1')).toMatchObject({ status: 200 });
  expect((await operator.call('POST', `/admin/campaigns/${product}/close`)).status).toBe(200);
  const home = shardOfProduct(product as ProductId, SHARDS);
  const hash = `db1:{${product}}:campaign`;
  const buckets = range(0, BUCKETS - 1).flatMap(
    (bucket) => connections[shardOfBucket(home, bucket, BUCKETS, SHARDS)] ?? [],
  );
  // As if the first bucket had been closed longer ago than the pause for returning users.
  const long = Date.now() - 60_000;
  await buckets[0]?.hset(hash, 'closed_at', long);
  await until('it is archived', async () => (await buckets[0]?.hget(hash, 'forgotten')) === 'done');
  expect(await partitionsCommand('drop', product, '--yes')).toEqual({
    ...{ code: 1, output: expect.stringContaining('Redis still has its reservations') },
  });
  for (const redis of buckets) await redis.hset(hash, 'closed_at', long);
  await until('all are archived, and the rows are dropped', async () => {
    return (await partitionsCommand('drop', product, '--yes')).code === 0;
  });
});
