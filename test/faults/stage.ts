import { execFileSync } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from '@jest/globals';
import slotOf from 'cluster-key-slot';
import { Redis } from 'ioredis';
import pg from 'pg';
import type { RunningEngine } from '../../scripts/engines/engine.js';
import { startPgBouncer } from '../../scripts/engines/pgbouncer.mjs';
import { startRedis } from '../../scripts/engines/redis.mjs';
import { LIMITS } from '../../shared/config/limits.js';
import { shardPrefix } from '../../shared/domain/shards.js';
import { atEnd } from '../harness/cleanup.js';
import { Operator } from '../harness/clients.js';
import { type ClusterNode, NO_FAILOVER_MS, RedisCluster, removeData, startAgain } from '../harness/cluster.js';
import { Crowd } from '../harness/crowd.js';
import { slowed } from '../harness/engines.js';
import { freePort } from '../harness/free-port.js';
import { keepLogFile } from '../harness/kept-logs.js';
import { ENDS_SOON } from '../harness/redis-client.js';
import { ON_CLUSTER } from '../harness/redis-mode.js';
import { RedisSilence } from '../harness/redis-silence.js';
import { type ServiceProcess, serviceEnv, startApiProcess, startWorkerProcess } from '../harness/service.js';
import { startStagePostgres } from '../harness/stage-postgres.js';
import { until } from '../harness/until.js';
import { expectNothingLost } from '../harness/verdict.js';

export type StageOptions = {
  /** Another Redis than usual. */
  redisBinary?: string;
  /** A single server in every run of the suite. */
  onServer?: boolean;
};

/**
 * The whole service on engines that can be killed, frozen and started again on the same data and ports: what happens to
 * a process happens to a real one. Redis and Postgres write to disk as in production.
 */
export class Stage {
  readonly apis: ServiceProcess[] = [];
  readonly workers: ServiceProcess[] = [];
  /** On a cluster (see startTestRedis): the primary of the only shard, with the URL of the cluster. */
  redis!: RunningEngine;
  postgres!: RunningEngine;
  /** Between the product and Postgres under `npm test -- --pgbouncer`. */
  #pooler: RunningEngine | null = null;
  env!: NodeJS.ProcessEnv;
  url!: string;
  folder!: string;
  #redisBinary = process.env.DOORBUSTER_TEST_REDIS_BINARY;
  #cluster: { url: string; primary: ClusterNode } | null = null;
  #urls: string[] = [];
  readonly #silences = new WeakMap<Crowd, RedisSilence>();

  /**
   * Starts engines, one API and one worker; ended with the test file.
   */
  static async set(
    extra: NodeJS.ProcessEnv = {},
    { redisBinary, onServer = false }: StageOptions = {},
  ): Promise<Stage> {
    const stage = new Stage();
    if (redisBinary) stage.#redisBinary = redisBinary;
    stage.folder = await mkdtemp(join(tmpdir(), 'doorbuster-stage-'));
    atEnd('the engines', async () => {
      await stage.redis.stop();
      await stage.#pooler?.stop();
      await stage.postgres.stop();
      await rm(stage.folder, { recursive: true, force: true });
    });
    // A stage with a Redis of its own has no use for another cluster.
    if (ON_CLUSTER && !onServer && extra.REDIS_URL === undefined) await stage.#startCluster();
    await Promise.all([stage.#cluster === null ? stage.startRedis() : null, stage.startPostgres()]);
    const binary = process.env.DOORBUSTER_TEST_PGBOUNCER_BINARY;
    if (binary) {
      const directory = join(stage.folder, 'pgbouncer');
      const port = await freePort();
      stage.#pooler = await startPgBouncer({ binary, directory, port, target: stage.postgres.url });
    }
    const redisUrl = stage.#cluster ? stage.redis.url : await slowed(stage.redis.url);
    stage.env = serviceEnv(redisUrl, await slowed((stage.#pooler ?? stage.postgres).url), {
      PORT: String(await freePort()),
      LOG_LEVEL: 'info',
      ...extra,
    });
    await Promise.all([stage.startWorker(), stage.startApi()]);
    await stage.ready();
    return stage;
  }

  /** Starts the Redis that was killed on its data and its port. */
  async startRedis(): Promise<void> {
    if (this.#cluster) {
      const { url, primary } = this.#cluster;
      await startAgain(primary);
      this.redis = { ...primary.engine, url };
      return;
    }
    const binary = this.#redisBinary;
    keepLogFile('redis', join(this.folder, 'redis', 'redis.log'));
    this.redis = await startRedis({
      dataDir: join(this.folder, 'redis'),
      port: this.redis?.port ?? (await freePort()),
      ...(binary ? { binary } : {}),
    });
  }

  /** Removes what the Redis that was killed has on its disk. */
  async removeRedisData(): Promise<void> {
    if (this.#cluster) await removeData(this.#cluster.primary);
    else await rm(join(this.folder, 'redis'), { recursive: true, force: true });
  }

  /** A connection of the test to this Redis, which adds the prefix of the shard to keys; ended with the test file. */
  connectToRedis(): Redis {
    const redis = new Redis({
      ...ENDS_SOON,
      port: this.redis.port,
      keyPrefix: this.#cluster ? shardPrefix(0, 1, true) : '',
    });
    redis.on('error', () => {
      // Fault tests end Redis on purpose.
    });
    atEnd('a connection to Redis', () => redis.disconnect());
    return redis;
  }

  async startPostgres(): Promise<void> {
    this.postgres = await startStagePostgres(join(this.folder, 'postgres'), this.postgres?.port ?? null);
    if (this.#pooler) await untilServed(this.#pooler.url);
  }

  /** Stops Postgres, for example to copy its data, and starts it again. */
  async withoutPostgres(work: () => void): Promise<void> {
    this.postgres.kill('SIGINT');
    await this.postgres.exited;
    work();
    await this.startPostgres();
  }

  async #startCluster(): Promise<void> {
    const extraArgs = ['--appendfsync', 'always'];
    const cluster = await RedisCluster.start({ nodeTimeoutMs: NO_FAILOVER_MS, extraArgs });
    const primary = await cluster.primaryOf(slotOf(shardPrefix(0, 1, true)));
    this.#cluster = { url: cluster.url, primary };
    this.redis = { ...primary.engine, url: cluster.url };
  }

  /**
   * @param env PORT 0 for a second one beside the first
   * @param waits false: for one that is not to serve
   */
  async startApi(env: NodeJS.ProcessEnv = this.env, waits = true): Promise<void> {
    const { process, url } = await startApiProcess(env, waits);
    this.apis.push(process);
    this.#urls.push(url);
    this.url = url;
  }

  async startWorker(env: NodeJS.ProcessEnv = this.env): Promise<void> {
    this.workers.push(await startWorkerProcess(env));
  }

  /** Waits until the API says that it can serve. */
  async ready(): Promise<void> {
    await until('the API is ready', () =>
      fetch(`${this.url}/readyz`, { signal: AbortSignal.timeout(10_000) }).then(
        ({ ok }) => ok,
        () => false,
      ),
    );
  }

  /** A new connection to Postgres; ended by the caller. */
  async query<Row extends pg.QueryResultRow>(sql: string, values: unknown[] = []): Promise<Row[]> {
    const client = new pg.Client(this.postgres.url);
    await client.connect();
    try {
      return (await client.query<Row>(sql, values)).rows;
    } finally {
      await client.end();
    }
  }

  /** The crowd does not call this API any more. */
  leaveOut(url: string): void {
    this.#urls = this.#urls.filter((one) => one !== url);
  }

  openCampaign(terms: Record<string, unknown> = {}): Promise<string> {
    return new Operator(this.url).openCampaign({
      total_limit: 500,
      hold_seconds: 600,
      waiting_room: { enabled: true },
      require_attestation: false,
      ...terms,
    });
  }

  /**
   * New users at `perSecond` until the crowd is stopped, spread over the APIs. Few enough for a machine that does other
   * work.
   * @param redis serves the campaign
   */
  crowd(product: string, perSecond = 150, redis = this.connectToRedis(), nextUser?: () => string): Crowd {
    let next = 0;
    const target = () => String(this.#urls[next++ % this.#urls.length]);
    const crowd = new Crowd({ product, perSecond, target, ...(nextUser && { nextUser }) });
    this.#silences.set(crowd, new RedisSilence(redis));
    return crowd;
  }

  /**
   * Checks that no request was rejected because of an engine. A busy machine makes the API reject some for another
   * cause, so the number of all says nothing; that the sale goes on is for the test to await. A Redis that is silent, as
   * on a busy machine, is away: then there is nothing to check.
   */
  expectServed(crowd: Crowd, without: 'redis' | 'postgres' = 'redis'): void {
    const silentMs = this.#silences.get(crowd)?.longestMs ?? 0;
    if (without === 'redis' && silentMs >= LIMITS.redis.commandMs / 2) return;
    const lines = this.apis.flatMap(({ log }) => log).filter((line) => line.includes('"datastore unavailable"'));
    const causes = lines.map((line) => JSON.parse(line) as { engine: string; request_id: string; reason: string });
    expect(causes.filter((one) => one.engine === without && crowd.refusedIds.has(one.request_id))).toEqual([]);
  }

  /** Waits until Postgres has everything, and checks that nothing was lost, given twice or left unanswered. */
  async expectNothingLost(crowd: Crowd, product: string): Promise<void> {
    const client = new pg.Client(this.postgres.url);
    await client.connect();
    try {
      await expectNothingLost(crowd, this.env, client, product);
    } finally {
      await client.end();
    }
  }
}

/** Copies a data directory with the permissions that Postgres asks for. */
export function copyFolder(from: string, to: string): void {
  execFileSync('rm', ['-rf', to]);
  execFileSync('cp', ['-a', from, to]);
}

/** A pooler that could not connect refuses clients until it tries again (`server_login_retry`). */
function untilServed(url: string): Promise<unknown> {
  return until('the pooler serves again', async () => {
    const client = new pg.Client(url);
    client.on('error', () => {});
    try {
      await client.connect();
      return (await client.query('select 1')).rows.length > 0;
    } catch {
      return false;
    } finally {
      await client.end();
    }
  });
}
