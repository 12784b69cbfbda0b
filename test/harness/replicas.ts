import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { findRedisServer } from '../../scripts/engines/redis.mjs';
import { atEnd } from './cleanup.js';
import { startTestServer, type TestRedis } from './engines.js';
import { freePort } from './free-port.js';
import { ENDS_SOON } from './redis-client.js';
import { until } from './until.js';

/** Returns when the replica follows the primary: what is written from now on reaches it at once. */
export async function attach(replica: Redis, primaryPort: number): Promise<void> {
  await replica.replicaof('127.0.0.1', String(primaryPort));
  await until('the replica follows', async () => /master_link_status:up/.test(await replica.info('replication')));
}

/** A replica of that primary; ended with the test file. */
export async function startReplica(primaryPort: number, extraArgs: readonly string[] = []): Promise<TestRedis> {
  const replica = await startTestServer(['--appendfsync', 'no', '--repl-diskless-sync-delay', '0', ...extraArgs]);
  await attach(replica.client, primaryPort);
  return replica;
}

export type Sentinels = {
  ports: readonly number[];
  /** `h1:p1,h2:p2,h3:p3` for REDIS_URL. */
  hosts: string;
  /** A client of the first Sentinel. */
  client: Redis;
  /** The port of the primary that the first Sentinel names. */
  primaryPort(): Promise<number>;
};

/**
 * Sentinels that watch a primary under the name `doorbuster`, and know its replicas and each other; ended with the test
 * file.
 */
export async function startSentinels(
  primaryPort: number,
  { count = 3, downAfterMs = 1_000, replicas = 2 } = {},
): Promise<Sentinels> {
  const binary = process.env.DOORBUSTER_TEST_REDIS_BINARY ?? (await findRedisServer());
  const quorum = Math.floor(count / 2) + 1;
  const ports = await Promise.all(
    Array.from({ length: count }, () => startSentinel(binary, primaryPort, quorum, downAfterMs)),
  );
  const client = new Redis({
    ...ENDS_SOON,
    host: '127.0.0.1',
    port: Number(ports[0]),
    enableReadyCheck: false,
    maxRetriesPerRequest: null,
  });
  client.on('error', () => {});
  atEnd('the client of a Sentinel', () => client.disconnect());
  await until('the Sentinels know the replicas and each other', async () => {
    const known = await Promise.all(ports.map((port) => sentinelView(port)));
    return known.every((view) => view === `${replicas} ${count - 1}`);
  });
  return {
    ports,
    hosts: ports.map((port) => `127.0.0.1:${port}`).join(','),
    client,
    async primaryPort() {
      const address = (await client.call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', 'doorbuster')) as string[];
      return Number(address[1]);
    },
  };
}

async function startSentinel(
  binary: string,
  primaryPort: number,
  quorum: number,
  downAfterMs: number,
): Promise<number> {
  const folder = await mkdtemp(join(tmpdir(), 'doorbuster-sentinel-'));
  const port = await freePort();
  const settings = [
    `port ${port}`,
    'bind 127.0.0.1',
    `dir ${folder}`,
    `sentinel monitor doorbuster 127.0.0.1 ${primaryPort} ${quorum}`,
    `sentinel down-after-milliseconds doorbuster ${downAfterMs}`,
    'sentinel failover-timeout doorbuster 5000',
    'sentinel parallel-syncs doorbuster 2',
  ];
  const file = join(folder, 'sentinel.conf');
  await writeFile(file, `${settings.join('\n')}\n`);
  const child = spawn(binary, [file, '--sentinel'], { stdio: 'ignore' });
  const ended = once(child, 'exit');
  atEnd('a Sentinel', async () => {
    child.kill('SIGCONT');
    child.kill('SIGTERM');
    await ended;
    await rm(folder, { recursive: true, force: true });
  });
  return port;
}

/** How many replicas and other Sentinels this one knows; empty while it does not answer. */
async function sentinelView(port: number): Promise<string> {
  const redis = new Redis({ host: '127.0.0.1', port, enableReadyCheck: false, retryStrategy: null, lazyConnect: true });
  redis.on('error', () => {});
  try {
    await redis.connect();
    const details = (await redis.call('SENTINEL', 'MASTER', 'doorbuster')) as string[];
    const fieldOf = (name: string) => details[details.indexOf(name) + 1];
    return `${fieldOf('num-slaves')} ${fieldOf('num-other-sentinels')}`;
  } catch {
    return '';
  } finally {
    redis.disconnect();
  }
}
