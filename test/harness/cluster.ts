import { randomBytes } from 'node:crypto';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import type { ClusterPlace, RunningEngine } from '../../scripts/engines/engine.js';
import { startRedis } from '../../scripts/engines/redis.mjs';
import { CLUSTER_FILE, clusterSettings, writePlaces } from '../../scripts/engines/redis-cluster.mjs';
import { atEnd } from './cleanup.js';
import { freePorts } from './free-port.js';
import { keepLogFile } from './kept-logs.js';
import { ENDS_SOON } from './redis-client.js';
import { until } from './until.js';

/** One server of a cluster, with a connection of the test to it alone. */
export type ClusterNode = {
  engine: RunningEngine;
  folder: string;
  args: readonly string[];
  binary: string | undefined;
  redis: Redis;
  id: string;
};

export type ClusterOptions = {
  primaries?: number;
  /** Replicas of each primary. */
  replicas?: number;
  /** A replica takes over when the others have not reached its primary for so long. */
  nodeTimeoutMs?: number;
  /** For each server. */
  extraArgs?: readonly string[];
  /** Another Redis than usual. */
  binary?: string | undefined;
};

/** A `nodeTimeoutMs` above the limits of all waits: a primary that is started again is the primary again. */
export const NO_FAILOVER_MS = 600_000;

/**
 * A real Redis Cluster on the loopback: `primaries` with equal ranges of slots, each with its replicas. Ended with the
 * test file.
 */
export class RedisCluster {
  readonly nodes: ClusterNode[] = [];

  static async start({
    primaries = 3,
    replicas = 1,
    nodeTimeoutMs = 2_000,
    extraArgs = ['--appendfsync', 'no'],
    binary = process.env.DOORBUSTER_TEST_REDIS_BINARY,
  }: ClusterOptions = {}): Promise<RedisCluster> {
    const cluster = new RedisCluster();
    const places = await choosePlaces(primaries * (1 + replicas));
    atEnd('a cluster', () => cluster.#end());
    for (const place of places) writePlaces(place, places, primaries);
    const started = await Promise.allSettled(
      places.map(({ busPort, host: _, ...place }) =>
        startNode({ ...place, args: clusterSettings(busPort, nodeTimeoutMs, extraArgs), binary }),
      ),
    );
    // Those that did start are ended with the file, even if another one did not.
    for (const one of started) if (one.status === 'fulfilled') cluster.nodes.push(one.value);
    for (const one of started) if (one.status === 'rejected') throw one.reason;
    await cluster.untilHealthy(primaries, replicas);
    return cluster;
  }

  /** For REDIS_URL: two nodes, which are enough to find the others. */
  get url(): string {
    const hosts = this.nodes.slice(0, 2).map(({ engine }) => `127.0.0.1:${engine.port}`);
    return `redis+cluster://${hosts.join(',')}`;
  }

  /** The server that is the primary of a slot now, as a node that replies says. */
  async primaryOf(slot: number): Promise<ClusterNode> {
    return until(`slot ${slot} has a primary`, async () => {
      for (const { redis, engine } of this.nodes) {
        if (engine.port === 0 || redis.status !== 'ready') continue;
        const rows = (await redis.cluster('SLOTS').catch(() => [])) as unknown as [number, number, [string, number]][];
        const row = rows.find(([from, to]) => slot >= from && slot <= to);
        const node = this.nodes.find((one) => one.engine.port === row?.[2][1]);
        if (node) return node;
      }
      return null;
    });
  }

  /** A replica of a primary. */
  async replicaOf(primary: ClusterNode): Promise<ClusterNode> {
    return until('the primary has a replica', async () => {
      const text = String(await primary.redis.call('CLUSTER', 'REPLICAS', primary.id));
      return this.nodes.find(({ id }) => text.includes(id) && id !== primary.id);
    });
  }

  /** Waits until every slot is served, and every primary has its replicas in step. */
  async untilHealthy(primaries: number, replicas: number): Promise<void> {
    await until('the cluster is healthy', async () => {
      if (!this.nodes.every(({ redis }) => redis.status === 'ready')) return false;
      const views = await Promise.all(
        this.nodes.map(async ({ redis }) => [
          String(await redis.call('CLUSTER', 'INFO')),
          String(await redis.call('INFO', 'replication')),
        ]),
      );
      return (
        views.every(
          ([info = '']) => /cluster_state:ok/.test(info) && new RegExp(`cluster_size:${primaries}\\b`).test(info),
        ) && views.filter(([, text = '']) => /role:master/.test(text)).every(([, text = '']) => inStep(text, replicas))
      );
    });
  }

  async #end(): Promise<void> {
    await Promise.all(
      this.nodes.map(async ({ redis, engine }) => {
        redis.disconnect();
        // Its data are removed, so that it does not have to end in order.
        engine.kill('SIGKILL');
        await engine.exited;
      }),
    );
  }
}

/** Starts a server that was killed again, on its data, its port and its place in the cluster. */
export async function startAgain(node: ClusterNode): Promise<void> {
  const { folder, args, binary } = node;
  node.engine = await startRedis({
    dataDir: folder,
    port: node.engine.port,
    extraArgs: args,
    ...(binary ? { binary } : {}),
  });
}

/** Removes the data of a server that was killed, but not its place in the cluster. */
export async function removeData({ folder }: ClusterNode): Promise<void> {
  const names = await readdir(folder);
  const data = names.filter((name) => name !== CLUSTER_FILE);
  await Promise.all(data.map((name) => rm(join(folder, name), { recursive: true, force: true })));
}

/** The folders are removed with the test file, after the servers that the caller starts there. */
export async function choosePlaces(count: number, hosts: readonly string[] = ['127.0.0.1']): Promise<ClusterPlace[]> {
  const ports = await freePorts(2 * count);
  const root = await mkdtemp(join(tmpdir(), 'doorbuster-cluster-'));
  atEnd('the folders of a cluster', () => rm(root, { recursive: true, force: true }));
  return Promise.all(
    Array.from({ length: count }, async (_, i) => ({
      id: randomBytes(20).toString('hex'),
      folder: await mkdtemp(join(root, 'server-')),
      host: hosts[i % hosts.length] as string,
      port: ports[2 * i] as number,
      busPort: ports[2 * i + 1] as number,
    })),
  );
}

type NewNode = Pick<ClusterNode, 'id' | 'folder' | 'args' | 'binary'> & { port: number };

async function startNode({ id, folder, port, args, binary }: NewNode): Promise<ClusterNode> {
  keepLogFile('redis', join(folder, 'redis.log'));
  const engine = await startRedis({ dataDir: folder, port, extraArgs: args, ...(binary ? { binary } : {}) });
  const redis = new Redis(engine.url, { ...ENDS_SOON, retryStrategy: () => 100, maxRetriesPerRequest: null });
  redis.on('error', () => {
    // Fault tests end servers on purpose.
  });
  return { engine, folder, args, binary, redis, id };
}

/** Whether a primary has so many replicas that receive what it writes. */
function inStep(info: string, replicas: number): boolean {
  return [...info.matchAll(/^slave\d+:.*state=online,/gm)].length === replicas;
}
