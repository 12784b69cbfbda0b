import type { Redis } from 'ioredis';
import type { Log } from '../observability/log.js';
import type { Heartbeat, Heartbeats } from '../postgres/heartbeats.js';
import { JournalHistories } from '../postgres/journal-histories.js';
import type { Database } from '../postgres/pool.js';
import { RecoveredEntries } from '../postgres/recovered-entries.js';
import type { CommitWatermark } from '../redis/commit-watermark.js';
import { RedisGate } from '../redis/gate.js';
import { UnpersistedPromises } from '../sale/unpersisted-promises.js';
import { HistoryWatch, type HistoryWatchDeps } from './history-watch.js';

export type HistoryGateDeps = {
  processId: string;
  kind: Heartbeat['kind'];
  shard: number;
  /** SHARDS */
  shards: number;
  map: HistoryWatchDeps['map'];
  /** The connection for calls of scripts. */
  redis: Redis;
  /** A pool of its own: reports must not wait behind other statements. */
  database: Database;
  /** Of the process, for all of its shards. */
  heartbeats: Heartbeats;
  commits: CommitWatermark;
  shape: () => Promise<readonly string[]>;
  leaveServer: (reason: string) => void;
  onInfo?: (info: ReadonlyMap<string, string>) => void;
  log: Log;
  limits: { commandMs: number; promisesKept: number };
};

/**
 * The Redis gate of one process, the parts that follow the history in Postgres, and the promises that the process keeps
 * until they are persisted.
 */
export type HistoryGate = {
  gate: RedisGate;
  watch: HistoryWatch;
  promises: UnpersistedPromises;
  histories: JournalHistories;
  recovered: RecoveredEntries;
};

export function createHistoryGate(deps: HistoryGateDeps): HistoryGate {
  const {
    processId,
    kind,
    shard,
    shards,
    map,
    redis,
    database,
    heartbeats,
    commits,
    shape,
    leaveServer,
    onInfo,
    log,
    limits,
  } = deps;
  const histories = new JournalHistories(database, shard, shards, heartbeats);
  const recovered = new RecoveredEntries(database, shard);
  const promises = new UnpersistedPromises(limits.promisesKept);
  let away = false;
  const watch = new HistoryWatch({
    processId,
    kind,
    histories,
    recovered,
    promises,
    commits,
    map,
    onSaved: (entries, generation) =>
      log.warn({ entries, generation }, 'promises that a new history of Redis lacks were saved'),
    onTrouble: (error) => {
      if (!away) log.warn({ reason: error.message }, 'the history of the journal cannot be followed');
      away = true;
    },
    onBeat: () => {
      away = false;
    },
  });
  const gate = new RedisGate({
    redis,
    shape,
    judge: (epoch, server) => watch.judge(epoch, server),
    onInstallation: (installation) => watch.sees(installation),
    onJournal: (journal) => watch.seesJournal(journal),
    leaveServer,
    ...(onInfo ? { onInfo } : {}),
    onChange: (open, reason) => log.info({ open, reason }, 'Redis availability changed'),
    callLimitMs: limits.commandMs,
  });
  return { gate, watch, promises, histories, recovered };
}
