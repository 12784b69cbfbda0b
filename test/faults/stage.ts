import { randomInt } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import type { RunningEngine } from '../../scripts/engines/engine.js';
import { startPgBouncer } from '../../scripts/engines/pgbouncer.mjs';
import { startRedis } from '../../scripts/engines/redis.mjs';
import { atEnd } from '../harness/cleanup.js';
import { Operator } from '../harness/clients.js';
import { Crowd } from '../harness/crowd.js';
import { type ServiceProcess, serviceEnv, startApiProcess, startWorkerProcess } from '../harness/service.js';
import { startStagePostgres } from '../harness/stage-postgres.js';
import { until } from '../harness/until.js';
import { expectNothingLost } from '../harness/verdict.js';

/**
 * The whole service on engines that can be killed, frozen and started again on the same data and ports: what happens to
 * a process happens to a real one. Redis and Postgres write to disk as in production.
 */
export class Stage {
  readonly apis: ServiceProcess[] = [];
  readonly workers: ServiceProcess[] = [];
  redis!: RunningEngine;
  postgres!: RunningEngine;
  /** Between the product and Postgres under `npm test -- --pgbouncer`. */
  #pooler: RunningEngine | null = null;
  env!: NodeJS.ProcessEnv;
  url!: string;
  #folder!: string;
  #redisBinary = process.env.DOORBUSTER_TEST_REDIS_BINARY;
  #urls: string[] = [];

  /**
   * Starts engines, one API and one worker; ended with the test file.
   * @param redisBinary another Redis than usual
   */
  static async set(extra: NodeJS.ProcessEnv = {}, redisBinary?: string): Promise<Stage> {
    const stage = new Stage();
    if (redisBinary) stage.#redisBinary = redisBinary;
    stage.#folder = await mkdtemp(join(tmpdir(), 'doorbuster-stage-'));
    atEnd('the engines', async () => {
      await stage.redis.stop();
      await stage.#pooler?.stop();
      await stage.postgres.stop();
      await rm(stage.#folder, { recursive: true, force: true });
    });
    await Promise.all([stage.startRedis(), stage.startPostgres()]);
    const binary = process.env.DOORBUSTER_TEST_PGBOUNCER_BINARY;
    if (binary) {
      const directory = join(stage.#folder, 'pgbouncer');
      stage.#pooler = await startPgBouncer({ binary, directory, target: stage.postgres.url });
    }
    stage.env = serviceEnv(stage.redis.url, (stage.#pooler ?? stage.postgres).url, {
      PORT: String(await freePort()),
      LOG_LEVEL: 'info',
      ...extra,
    });
    await Promise.all([stage.startWorker(), stage.startApi()]);
    await stage.ready();
    return stage;
  }

  async startRedis(): Promise<void> {
    const binary = this.#redisBinary;
    this.redis = await startRedis({
      dataDir: this.redisFolder,
      ...(this.redis ? { port: this.redis.port } : {}),
      ...(binary ? { binary } : {}),
    });
  }

  async startPostgres(): Promise<void> {
    this.postgres = await startStagePostgres(join(this.#folder, 'postgres'), this.postgres?.port ?? null);
    if (this.#pooler) await untilServed(this.#pooler.url);
  }

  get redisFolder(): string {
    return join(this.#folder, 'redis');
  }

  /** @param env PORT 0 for a second one beside the first */
  async startApi(env: NodeJS.ProcessEnv = this.env): Promise<void> {
    const { process, url } = await startApiProcess(env);
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
   */
  crowd(product: string, perSecond = 150): Crowd {
    let next = 0;
    const target = () => String(this.#urls[next++ % this.#urls.length]);
    return new Crowd({ product, perSecond, target });
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

/** A port that is free now, below those that the system gives to outgoing connections: it is still free seconds later. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(10_000, 32_000);
    const server = createServer();
    const listens = await new Promise<boolean>((resolve) => {
      server.once('error', () => resolve(false));
      server.listen(port, '127.0.0.1', () => resolve(true));
    });
    await new Promise((resolve) => server.close(resolve));
    if (listens) return port;
  }
}
