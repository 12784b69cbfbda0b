import { join } from 'node:path';
import type { Redis } from 'ioredis';
import type { Config } from '../config/config.js';
import { LIMITS } from '../config/limits.js';
import { projectRoot } from '../config/project-root.js';
import { shardPrefix } from '../domain/shards.js';
import { createHistoryGate, type HistoryGate } from '../history/history-gate.js';
import { endsWithItsConnection, type Lifecycle } from '../observability/lifecycle.js';
import { type Log, withFields } from '../observability/log.js';
import type { Heartbeat, Heartbeats } from '../postgres/heartbeats.js';
import type { Database } from '../postgres/pool.js';
import { CommitWatermark } from '../redis/commit-watermark.js';
import { RedisConnections } from '../redis/connections.js';
import { Journal } from '../redis/journal.js';
import { RedisClock } from '../redis/redis-clock.js';
import { redisProblems } from '../redis/redis-requirements.js';
import { ScriptRunner } from '../redis/script-runner.js';
import { untilPersisted } from '../sale/unpersisted-promises.js';
import type { ShardMap } from './shard-map.js';

/** The parts of one shard that every process has. */
export type Shard = HistoryGate & {
  index: number;
  /** Names the shard in each line if there are several. */
  log: Log;
  redis: RedisConnections;
  commands: Redis;
  subscriber: Redis;
  clock: RedisClock;
  commits: CommitWatermark;
  journal: Journal;
  /** Calls scripts while the gate is open. */
  scripts: ScriptRunner;
};

export type ShardDeps = {
  processId: string;
  kind: Heartbeat['kind'];
  index: number;
  config: Config;
  map: ShardMap;
  /** A pool of its own: reports must not wait behind other statements. */
  historyDatabase: Database;
  /** Of the process, for all of its shards. */
  heartbeats: Heartbeats;
  /** Responses that may wait for commits at once. */
  commitsWaiting: number;
  onRedisError?: () => void;
  onInfo?: (info: ReadonlyMap<string, string>) => void;
  log: Log;
  life: Lifecycle;
};

/** Connects a process to one shard, which does not have to be reachable yet. */
export function connectShard(deps: ShardDeps): Shard {
  const { processId, kind, index, config, map, historyDatabase, heartbeats, commitsWaiting, onInfo, life } = deps;
  const several = config.shards > 1;
  const log = several ? withFields(deps.log, { shard: index }) : deps.log;
  const of = several ? ` of shard ${index}` : '';
  const redis = openConnections({ ...deps, log });
  life.add(`connections to Redis${of}`, { stop: () => redis.close() });
  const [commands, subscriber] = [redis.forCommands(), redis.forSubscription()];
  const commits = new CommitWatermark(subscriber, commitsWaiting);
  const history = createHistoryGate({
    processId,
    kind,
    shard: index,
    shards: config.shards,
    map,
    redis: commands,
    database: historyDatabase,
    heartbeats,
    commits,
    shape: () => redisProblems(commands, { ...config, onCluster: config.redis.kind === 'cluster' }),
    leaveServer: (reason) => redis.leaveServer(reason),
    ...(onInfo ? { onInfo } : {}),
    log,
    limits: { ...LIMITS.redis, promisesKept: LIMITS.claims.promisesKept },
  });
  const { gate, watch } = history;
  const clock = new RedisClock(commands);
  life.add(`subscription to commits${of}`, {
    // Not awaited: without Redis the process starts all the same.
    start: () => void commits.start(),
    stop: endsWithItsConnection,
  });
  life.add(`Redis gate${of}`, kind === 'worker' ? { quiet: () => gate.stop() } : { stop: () => gate.stop() });
  life.add(`history watch${of}`, { start: () => watch.start(gate), stop: () => watch.stop() });
  life.add(`Redis clock${of}`, clock);
  // A worker loads what a shard lacks; only an API says to a caller that a campaign does not exist.
  const places = kind === 'api' ? map : null;
  const scripts = new ScriptRunner(commands, join(projectRoot(), 'lua'), gate, places);
  return {
    ...history,
    index,
    log,
    redis,
    commands,
    subscriber,
    clock,
    commits,
    journal: new Journal(commands),
    scripts,
  };
}

/**
 * Makes a process wait, when it stops, until Postgres has what it acknowledged: no other process has it if Redis loses
 * its data meanwhile.
 * @param isWritten whether another process writes it to Postgres
 */
export function awaitPromises(
  { life, log }: Pick<ShardDeps, 'life' | 'log'>,
  shards: readonly Pick<Shard, 'promises'>[],
  isWritten: () => Promise<boolean>,
): void {
  life.add('promises that Postgres lacks', {
    async stop() {
      if (!(await isWritten())) return;
      const promises = shards.map((shard) => shard.promises);
      const left = await untilPersisted(promises, LIMITS.shutdown.promisesMs);
      if (left > 0) log.warn({ promises: left }, 'stopping before Postgres has all promises; Redis has them');
    },
  });
}

function openConnections({ config, index, log, onRedisError }: ShardDeps): RedisConnections {
  const { redis: target, shards } = config;
  const onCluster = target.kind === 'cluster';
  return new RedisConnections(
    target,
    { commandMs: LIMITS.redis.silenceMs, connectMs: LIMITS.redis.connectMs },
    (purpose, error) => {
      onRedisError?.();
      log.warn({ purpose, reason: error.message }, 'Redis is away');
    },
    (reason) => log.warn({ reason }, 'left the Redis server'),
    shardPrefix(index, shards, onCluster, onCluster ? target.namespace : ''),
  );
}
