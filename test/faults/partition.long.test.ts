import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import slotOf from 'cluster-key-slot';
import { Redis } from 'ioredis';
import type { ClusterPlace } from '../../scripts/engines/engine.js';
import { findRedisServer } from '../../scripts/engines/redis.mjs';
import { clusterSettings, writePlaces } from '../../scripts/engines/redis-cluster.mjs';
import type { ProductId } from '../../shared/domain/ids.js';
import { shardOfProduct, shardPrefix } from '../../shared/domain/shards.js';
import { atEnd } from '../harness/cleanup.js';
import { Operator } from '../harness/clients.js';
import { choosePlaces } from '../harness/cluster.js';
import { Crowd } from '../harness/crowd.js';
import { createTestDatabase } from '../harness/engines.js';
import { doorTo, HostNetwork, whyNoHosts } from '../harness/hosts.js';
import { startProgram } from '../harness/programs.js';
import { ENDS_SOON } from '../harness/redis-client.js';
import { serviceEnv, startApiProcess, startWorkerProcess } from '../harness/service.js';
import { until } from '../harness/until.js';
import { expectNothingLost } from '../harness/verdict.js';

/** A host with a primary and an API process is cut off from the others, which go on. */
const SHARDS = 4;
const HOSTS = 3;
const why = whyNoHosts();
if (why) process.stderr.write(`tests of partitions are skipped: ${why}\n`);
const onHosts = why ? test.skip : test;

type Node = { place: ClusterPlace; redis: Redis };
type Stage = Awaited<ReturnType<typeof startStage>>;

async function startStage() {
  const network = new HostNetwork(HOSTS);
  const folder = await mkdtemp(join(tmpdir(), 'doorbuster-hosts-'));
  atEnd('a folder', () => rm(folder, { recursive: true, force: true }));
  // Each host has one primary, and a replica of each of the others: without one host, each primary has a replica.
  const addresses = network.hosts.map(({ address }) => address);
  const [first = '', second = '', third = ''] = addresses;
  const places = await choosePlaces(HOSTS * HOSTS, [...addresses, second, third, first, third, first, second]);
  for (const place of places) writePlaces(place, places, HOSTS);
  const binary = process.env.DOORBUSTER_TEST_REDIS_BINARY ?? (await findRedisServer());
  for (const place of places) startServer(network, binary, place);
  const nodes = await Promise.all(places.map(connect));
  await until('the cluster is healthy', async () => {
    const views = await Promise.all(nodes.map(({ redis }) => redis.call('INFO', 'replication')));
    return (
      views.filter((view) => /role:master[\s\S]*slave0:.*state=online[\s\S]*slave1:.*state=online/.test(String(view)))
        .length === HOSTS
    );
  });
  const database = await createTestDatabase();
  const url = new URL(database.url);
  url.host = `${network.address}:${await network.shelve(Number(url.port))}`;
  const hosts = places.slice(0, 2).map(({ host, port }) => `${host}:${port}`);
  const env = serviceEnv(`redis+cluster://${hosts.join(',')}`, url.href, {
    SHARDS: String(SHARDS),
    REDIS_WAIT_REPLICAS: '1',
    LOG_LEVEL: 'info',
  });
  await startWorkerProcess(env);
  const own = await startApiProcess(env);
  const [alone] = network.hosts;
  if (!alone) throw new Error('there is no host');
  const away = await startApiProcess({ ...env, HOST: alone.address }, true, undefined, alone.within);
  const door = await doorTo(alone, Number(new URL(away.url).port), folder);
  return { alone, env, database, nodes, url: own.url, aloneUrl: `http://127.0.0.1:${door}` };
}

function startServer({ hosts }: HostNetwork, binary: string, { host, port, busPort, folder }: ClusterPlace): void {
  const { within } = hosts.find(({ address }) => address === host) as HostNetwork['hosts'][number];
  const settings = clusterSettings(busPort, 4_000, ['--appendonly', 'yes', '--appendfsync', 'always']);
  const [program = '', ...args] = [...within, binary, '--bind', host, '--port', String(port), '--dir', folder];
  startProgram(program, [...args, '--protected-mode', 'no', '--maxmemory-policy', 'noeviction', ...settings], folder);
}

async function connect(place: ClusterPlace): Promise<Node> {
  const redis = new Redis(place.port, place.host, {
    ...ENDS_SOON,
    retryStrategy: () => 100,
    maxRetriesPerRequest: null,
  });
  redis.on('error', () => {
    // A host that is cut off does not reply.
  });
  atEnd('a connection', () => redis.disconnect());
  await until('a server replies', async () => (await redis.ping()) === 'PONG');
  return { place, redis };
}

/** Opens campaigns until one is on the server at this address, and another one is not. */
async function openOn({ url, nodes, database }: Stage, address: string): Promise<{ on: string; off: string }> {
  const found: { on?: string; off?: string } = {};
  const ranges = (await nodes[1]?.redis.cluster('SLOTS')) as unknown as [number, number, [string, number]][];
  while (!found.on || !found.off) {
    const product = await new Operator(url).openCampaign({
      total_limit: 1_000_000,
      hold_seconds: 600,
      require_attestation: false,
    });
    const { rows } = await database.client.query('select shard from campaigns where product_id = $1', [product]);
    const slot = slotOf(shardPrefix(rows[0].shard ?? shardOfProduct(product as ProductId, SHARDS), SHARDS, true));
    const owner = ranges.find(([from, to]) => slot >= from && slot <= to)?.[2][0];
    if (owner === address) found.on ??= product;
    else found.off ??= product;
  }
  return found as { on: string; off: string };
}

onHosts('a primary that is cut off together with an API promises nothing that the others do not have', async () => {
  const stage = await startStage();
  const { alone, env, database, url, aloneUrl } = stage;
  const { on, off } = await openOn(stage, alone.address);
  const crowd = (product: string, target: string) => new Crowd({ product, perSecond: 15, target: () => target });
  const [here, there, elsewhere] = [crowd(on, url), crowd(on, aloneUrl), crowd(off, url)];
  for (const one of [here, there, elsewhere]) one.start();
  await until('all sell', () => [here, there, elsewhere].every(({ completed }) => completed.length >= 50));
  await there.finish();
  alone.cut();
  const cutOff = crowd(on, aloneUrl);
  cutOff.start();
  await until('the API there refuses', () => cutOff.refused > 0);
  const [sold, soldElsewhere] = [here.completed.length, elsewhere.completed.length];
  await until('a replica has taken over, and the campaign sells', () => here.completed.length >= sold + 50);
  await until('the others go on', () => elsewhere.completed.length >= soldElsewhere + 50);
  // Such promises would be lost, since the replica is the primary now.
  expect(cutOff.completed).toEqual([]);
  alone.heal();
  await until('the API there sells again', () => cutOff.completed.length >= 50);
  await Promise.all([here, cutOff, elsewhere].map((one) => one.finish()));
  await expectNothingLost(elsewhere, env, database.client, off);
  for (const one of [here, there, cutOff]) await expectNothingLost(one, env, database.client, on);
});
