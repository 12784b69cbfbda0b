import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import pg from 'pg';
import type { RunningEngine } from '../../scripts/engines/engine.js';
import { startRedis } from '../../scripts/engines/redis.mjs';
import { atEnd } from './cleanup.js';
import { freePort } from './free-port.js';
import { EngineProxy } from './proxy.js';
import { ENDS_SOON } from './redis-client.js';
import { type ServiceProcess, serviceEnv, startApiProcess, startWorkerProcess } from './service.js';
import { startStagePostgres } from './stage-postgres.js';
import { until } from './until.js';

const binary = process.env.DOORBUSTER_TEST_REDIS_BINARY;

/** A real Redis server of a stage, with a connection of the test to it. */
export type Node = { engine: RunningEngine; folder: string; redis: Redis };

/** A process with addresses of its own for both engines, so that it alone can be moved or cut off. */
export type Member = { process: ServiceProcess; url: string; redis: EngineProxy; postgres: EngineProxy };

export type MemberOptions = { env?: NodeJS.ProcessEnv; withPostgres?: boolean };

/**
 * Redis servers that replicate, Postgres, and processes that each reach them through proxies of their own: for
 * failovers, partitions and engines that come back with another history.
 */
export class ReplicatedStage {
  readonly members: Member[] = [];
  readonly nodes: Node[] = [];
  postgres!: RunningEngine;
  #folder!: string;

  static async set(): Promise<ReplicatedStage> {
    const stage = new ReplicatedStage();
    stage.#folder = await mkdtemp(join(tmpdir(), 'doorbuster-replicated-'));
    atEnd('the engines', async () => {
      for (const { redis, engine } of stage.nodes) {
        redis.disconnect();
        engine.kill('SIGCONT');
        await engine.stop();
      }
      await stage.postgres.stop();
      await rm(stage.#folder, { recursive: true, force: true });
    });
    await stage.startPostgres();
    return stage;
  }

  async startPostgres(): Promise<void> {
    this.postgres = await startStagePostgres(join(this.#folder, 'postgres'), this.postgres?.port ?? null);
  }

  /** Starts a Redis server. @param replicaOf null = a primary @param from folder with data to begin with */
  async startNode(replicaOf: Node | null = null, from: string | null = null): Promise<Node> {
    const folder = join(this.#folder, `redis-${this.nodes.length}`);
    if (from) await cp(from, folder, { recursive: true });
    const extraArgs = ['--repl-diskless-sync-delay', '0', '--enable-debug-command', 'local'];
    if (replicaOf) extraArgs.push('--replicaof', '127.0.0.1', String(replicaOf.engine.port));
    const port = await freePort();
    const engine = await startRedis({ dataDir: folder, port, extraArgs, ...(binary ? { binary } : {}) });
    const redis = new Redis(engine.url, { ...ENDS_SOON, retryStrategy: () => 200 });
    redis.on('error', () => {
      // It is killed on purpose.
    });
    const node = { engine, folder, redis };
    this.nodes.push(node);
    if (replicaOf)
      await until('the replica has synchronised', async () =>
        (await replicationOf(node)).includes('master_link_status:up'),
      );
    return node;
  }

  /** A copy of what a server has on disk, for a later `startNode`. */
  async snapshot(node: Node): Promise<string> {
    const folder = join(this.#folder, `snapshot-${Math.random().toString(36).slice(2)}`);
    await cp(node.folder, folder, { recursive: true });
    return folder;
  }

  /** @param withPostgres false: Postgres does not answer it until its proxy forwards */
  async startApi(node: Node, { env = {}, withPostgres = true }: MemberOptions = {}): Promise<Member> {
    const { redis, postgres, environment } = await this.#proxies(node, env);
    if (!withPostgres) await postgres.swallow();
    const { process, url } = await startApiProcess(environment, withPostgres);
    const member = { process, url, redis, postgres };
    this.members.push(member);
    return member;
  }

  async startWorker(node: Node, { env = {}, withPostgres = true }: MemberOptions = {}): Promise<Member> {
    const { redis, postgres, environment } = await this.#proxies(node, env);
    if (!withPostgres) await postgres.swallow();
    const member = { process: await startWorkerProcess(environment), url: '', redis, postgres };
    this.members.push(member);
    return member;
  }

  /** The environment of a process that reaches the engines directly, for commands. */
  env(node: Node): NodeJS.ProcessEnv {
    return serviceEnv(node.engine.url, this.postgres.url);
  }

  async query<Row extends pg.QueryResultRow>(sql: string, values: unknown[] = []): Promise<Row[]> {
    const client = new pg.Client(this.postgres.url);
    await client.connect();
    try {
      return (await client.query<Row>(sql, values)).rows;
    } finally {
      await client.end();
    }
  }

  /** Status of each reservation of a campaign, by user. */
  async statuses(product: string): Promise<Record<string, string>> {
    const rows = await this.query<{ user_id: string; status: string }>(
      'select user_id, r.status from redemptions r join campaigns using (campaign_id) where product_id = $1',
      [product],
    );
    return Object.fromEntries(rows.map(({ user_id, status }) => [user_id, status]));
  }

  async #proxies(node: Node, env: NodeJS.ProcessEnv) {
    const redis = await EngineProxy.before(node.engine.port);
    const postgres = await EngineProxy.before(this.postgres.port);
    const databaseUrl = this.postgres.url.replace(`:${this.postgres.port}/`, `:${postgres.port}/`);
    const environment = serviceEnv(`redis://127.0.0.1:${redis.port}`, databaseUrl, { LOG_LEVEL: 'info', ...env });
    return { redis, postgres, environment };
  }
}

/** Moves a process to another server, as an address that follows the primary does; its connections are cut. */
export async function moveTo(member: Member, node: Node): Promise<void> {
  await member.redis.switchTo(node.engine.port);
}

export async function promote(node: Node): Promise<void> {
  await node.redis.replicaof('NO', 'ONE');
}

export async function replicationOf(node: Node): Promise<string> {
  return String(await node.redis.call('INFO', 'replication').catch(() => ''));
}

/** How often a worker has put a Redis server into service. */
export function recoveriesOf(worker: Member): number {
  return worker.process.log.filter((line) => line.includes('is in service')).length;
}

/** Moves processes to another server and waits until a worker has put it into service and an API can serve. */
export async function failOver(worker: Member, api: Member, node: Node, others: readonly Member[] = []): Promise<void> {
  const before = recoveriesOf(worker);
  for (const member of [worker, api, ...others]) await moveTo(member, node);
  await until('the worker has put Redis into service', () => recoveriesOf(worker) > before);
  await ready(api);
}

/** Waits until a process is ready. */
export async function ready(member: Member): Promise<void> {
  await until('the API is ready', () =>
    fetch(`${member.url}/readyz`).then(
      ({ ok }) => ok,
      () => false,
    ),
  );
}
