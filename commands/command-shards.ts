import { join } from 'node:path';
import type { Redis } from 'ioredis';
import { LIMITS } from '../shared/config/limits.js';
import { projectRoot } from '../shared/config/project-root.js';
import type { ProductId } from '../shared/domain/ids.js';
import { type ShardCount, shardPrefix } from '../shared/domain/shards.js';
import { readSharding } from '../shared/postgres/installation.js';
import type { Database } from '../shared/postgres/pool.js';
import { JournalCursor } from '../shared/projection/journal-cursor.js';
import { connectForCommands } from '../shared/redis/connections.js';
import { Journal } from '../shared/redis/journal.js';
import type { RedisTarget } from '../shared/redis/redis-target.js';
import { ScriptRunner } from '../shared/redis/script-runner.js';
import { ShardMap } from '../shared/shards/shard-map.js';

/** What a command needs of one shard. */
export type CommandShard = {
  index: number;
  redis: Redis;
  scripts: ScriptRunner;
  journal: Journal;
  cursor: JournalCursor;
};

/** The shards of an installation for a command that reads them and ends. Connects to each shard when it is needed. */
export class CommandShards {
  readonly #opened = new Map<number, CommandShard>();

  constructor(
    readonly target: RedisTarget,
    readonly database: Database,
    readonly map: ShardMap,
    readonly limits: { commandMs: number },
  ) {}

  /** Reads from Postgres how many shards there are. @throws EngineUnavailable */
  static async of(target: RedisTarget, database: Database, limits: { commandMs: number }): Promise<CommandShards> {
    const sharding = await readSharding(database);
    const map = new ShardMap(sharding.shards as ShardCount);
    map.replace(sharding);
    return new CommandShards(target, database, map, limits);
  }

  /** @throws Error when Redis cannot be reached */
  async open(index: number): Promise<CommandShard> {
    const known = this.#opened.get(index);
    if (known) return known;
    const onCluster = this.target.kind === 'cluster';
    const namespace = this.target.kind === 'cluster' ? this.target.namespace : '';
    const prefix = shardPrefix(index, this.map.count, onCluster, namespace);
    const connectMs = LIMITS.commands.connectMs;
    const redis = connectForCommands(this.target, { ...this.limits, connectMs }, () => {}, prefix);
    const cursor = new JournalCursor(this.database, index, this.map.count > 1);
    const scripts = new ScriptRunner(redis, join(projectRoot(), 'lua'));
    const shard = { index, redis, scripts, journal: new Journal(redis), cursor };
    this.#opened.set(index, shard);
    const limit = setTimeout(() => redis.emit('error', new Error('no server replies')), connectMs * 2);
    await new Promise<void>((resolve, reject) => {
      redis.once('ready', resolve);
      redis.once('error', reject);
    }).finally(() => clearTimeout(limit));
    return shard;
  }

  of(product: ProductId, bucket: number): Promise<CommandShard> {
    return this.open(this.map.shardOf(product, bucket));
  }

  close(): void {
    for (const { redis } of this.#opened.values()) redis.disconnect();
  }
}
