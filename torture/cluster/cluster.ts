import { join } from 'node:path';
import { migrateToLatest } from '../../shared/postgres/migrate.js';
import { processNames } from '../faults/fault.js';
import type { History } from '../history.js';
import type { Tools } from '../tools.js';
import { Clock } from './clocks.js';
import { Link } from './link.js';
import { PostgresNode } from './postgres-node.js';
import { RedisPair } from './redis-pair.js';
import { type NodeLinks, ServiceNode } from './service-node.js';

export const ADMIN_SECRET = 'admin-secret-of-the-torture';
export const SERVICE_SECRET = 'service-secret-of-the-torture';
/** One try of `reconcile --after-restore`, which takes some seconds, and a minute on an overloaded machine. */
const RECONCILE_LIMIT_MS = 180_000;
/** How long it is repeated. Other faults end a try; 100 s of them have 30 s of calm. */
const RECONCILE_AGAIN_MS = 180_000;
/** Limits for one network or user that a crowd from one address would reach. */
const WIDE_LIMITS = {
  TOKENS_PER_MINUTE: '1000000',
  FREE_TOKENS_PER_MINUTE: '1000000',
  POLLS_PER_10_SECONDS: '1000',
  VALIDATE_PER_MINUTE_PER_USER: '1000',
  REDEEM_PER_MINUTE_PER_USER: '1000',
  REDEEM_PER_MINUTE_PER_ADDRESS: '1000000',
  CHECKOUTS_PER_MINUTE_PER_ADDRESS: '1000000',
};

export type ClusterOptions = { folder: string; replicas: number; shards: number; apis: number; movesClocks: boolean };

/** A process, or commands of operators, with links of their own to the engines. */
export type Connected = { name: string; links: NodeLinks };

/**
 * Some API processes, two workers, a Redis primary with a replica, and Postgres; a link before each engine for each
 * process.
 */
export class Cluster {
  readonly nodes: ServiceNode[] = [];
  /** Where operators run `npm run reshard`; null with one shard. */
  desk: Connected | null = null;
  /** Links between clients and the API processes, by name of the process. */
  readonly fronts = new Map<string, Link>();
  readonly clocks = new Map<string, Clock>();
  redisClock: Clock | null = null;
  redis!: RedisPair;
  postgres!: PostgresNode;

  private constructor(
    readonly options: ClusterOptions,
    readonly tools: Tools,
    readonly history: History,
  ) {}

  static async start(options: ClusterOptions, tools: Tools, history: History): Promise<Cluster> {
    const cluster = new Cluster(options, tools, history);
    await cluster.#startEngines();
    for (const name of processNames(options.apis)) cluster.nodes.push(await cluster.#node(name));
    if (options.shards > 1) cluster.desk = { name: 'operator', links: await cluster.#openLinks() };
    await Promise.all(cluster.nodes.map((node) => node.start()));
    await Promise.all(cluster.nodes.map((node) => node.up));
    return cluster;
  }

  get apis(): ServiceNode[] {
    return this.nodes.filter(({ kind }) => kind === 'api');
  }

  /** Everything that network faults can cut off. */
  get connected(): Connected[] {
    return this.desk ? [...this.nodes, this.desk] : this.nodes;
  }

  node(name: string): ServiceNode {
    const node = this.nodes.find((one) => one.name === name);
    if (!node) throw new Error(`there is no process ${name}`);
    return node;
  }

  urlOf(api: string): string {
    return `http://127.0.0.1:${this.fronts.get(api)?.port}`;
  }

  /** Every process reaches the present primary; connections to another server are cut, or kept where they are. */
  switchRedis({ keep = false, except = [] as readonly string[] } = {}): void {
    for (const { name, links } of this.connected)
      if (!except.includes(name)) links.redis.switchTo(this.redis.primary.port, { keep });
  }

  /** Whether the primary replies and every shard has an epoch. Without Postgres no shard gets one. */
  async redisIsInService(): Promise<boolean> {
    const epochs = await this.redis.command(this.redis.primary, ['KEYS', '*:epoch']).catch(() => []);
    return (epochs as string[]).length === this.options.shards;
  }

  /** What an operator does after Postgres was put back. */
  async reconcileAfterRestore(): Promise<void> {
    const { tools, redis, postgres } = this;
    const args = ['run', '--silent', 'reconcile', '--', '--after-restore'];
    const until = performance.now() + RECONCILE_AGAIN_MS;
    for (;;) {
      // Of the present primary: another fault may have demoted the one of the last try.
      const url = `redis://127.0.0.1:${redis.primary.port}`;
      const env = { ...process.env, REDIS_URL: url, DATABASE_URL: postgres.url };
      const { code, output } = await tools.run('npm', args, { cwd: tools.root, env, limitMs: RECONCILE_LIMIT_MS });
      this.history.event({ what: 'repair', code, output });
      if (code === 0) return;
      // Another fault may have an engine down: an operator repeats the command when it is back.
      if (performance.now() > until) throw new Error(`reconcile --after-restore failed: ${output}`);
      await new Promise((resolve) => setTimeout(resolve, 500));
    }
  }

  /** One try of `npm run reshard` for a campaign. It is killed when it has run for `limitMs`. */
  async move(product: string, shard: number, limitMs: number): Promise<{ code: number | null; output: string }> {
    const { tools, desk } = this;
    if (!desk) throw new Error('there is one shard only');
    const main = join(tools.root, 'dist/commands/reshard.js');
    const args = [main, '--campaign', product, '--to-shard', String(shard)];
    const env = { PATH: process.env.PATH, ...this.#enginesOf(desk.links) };
    return tools.run(process.execPath, args, { env, limitMs, stopSignal: 'SIGKILL' });
  }

  async stop(): Promise<void> {
    await Promise.all(
      this.nodes.map((node) => {
        node.resume();
        return node.kill();
      }),
    );
    const links = this.connected.flatMap(({ links: { redis, postgres } }) => [redis, postgres]);
    await Promise.all([...links, ...this.fronts.values()].map((link) => link.close()));
    await Promise.all([this.redis?.stop(), this.postgres?.stop()]);
  }

  async #startEngines(): Promise<void> {
    const { folder, movesClocks } = this.options;
    let binary = this.tools.redisBinary;
    if (movesClocks) {
      const clock = new Clock(folder, 'redis', this.tools.root);
      const starter = clock.redisStarter(folder, binary);
      if (starter !== null) {
        binary = starter;
        this.redisClock = clock;
      }
    }
    [this.redis, this.postgres] = await Promise.all([
      RedisPair.start(this.tools, folder, binary),
      PostgresNode.start(this.tools, folder),
    ]);
    await migrateToLatest(this.postgres.url);
  }

  async #node(name: string): Promise<ServiceNode> {
    const kind = name.startsWith('api') ? 'api' : 'worker';
    const port = kind === 'api' ? await this.tools.freePort() : null;
    const links = await this.#openLinks();
    if (port !== null) this.fronts.set(name, await Link.open(port));
    const env = {
      PATH: process.env.PATH,
      NODE_ENV: 'test',
      HOST: '127.0.0.1',
      ...(port === null ? {} : { PORT: String(port) }),
      ...this.#enginesOf(links),
      ADMIN_API_KEYS: `torture:${ADMIN_SECRET}`,
      SERVICE_API_KEYS: `payments:${SERVICE_SECRET}`,
      ATTESTATION_KEYS: `a1:${Buffer.alloc(32, 7).toString('base64')}`,
      TICKET_KEYS: `t1:${Buffer.alloc(32, 9).toString('base64')}`,
      ...WIDE_LIMITS,
      ...(this.options.shards > 1 ? { SHARDS: String(this.options.shards) } : {}),
      ...(this.options.replicas > 0 ? { REDIS_WAIT_REPLICAS: String(this.options.replicas) } : {}),
      ...this.#clockEnv(name),
    };
    const logPath = join(this.options.folder, `${name}.log`);
    return new ServiceNode({ name, kind, env, logPath, links, port }, this.tools, this.history);
  }

  async #openLinks(): Promise<NodeLinks> {
    return { redis: await Link.open(this.redis.primary.port), postgres: await Link.open(this.postgres.port) };
  }

  #enginesOf({ redis, postgres }: NodeLinks) {
    const database = new URL(this.postgres.url);
    database.port = String(postgres.port);
    return { REDIS_URL: `redis://127.0.0.1:${redis.port}`, DATABASE_URL: database.href };
  }

  #clockEnv(name: string): NodeJS.ProcessEnv {
    if (!this.options.movesClocks) return {};
    const clock = new Clock(this.options.folder, name, this.tools.root);
    this.clocks.set(name, clock);
    return clock.env;
  }
}
