import { LIMITS } from '../../shared/config/limits.js';
import { RedemptionsTable } from '../../shared/postgres/redemptions.js';
import { JournalCursor } from '../../shared/projection/journal-cursor.js';
import { Journal } from '../../shared/redis/journal.js';
import { RelayLease } from '../../shared/redis/relay-lease.js';
import { RequestNames } from '../../shared/redis/request-names.js';
import type { Core, WorkerShard } from '../core.js';
import { Persist, type PersistDeps } from './persist.js';
import { RefusedEntries } from './refused-entries.js';
import { JournalRelay } from './relay.js';

/** How many shards of a worker read their journals at once; one of them writes. */
const WRITERS = 4;

/**
 * Persists the journal of each shard to Postgres.
 * @param publish receives the events of each batch after its commit
 * @returns by shard
 */
export function persistModule(
  { openPool, database, shards, metrics, tracing, config }: Core,
  { publish }: Required<Pick<PersistDeps, 'publish'>>,
): Persist[] {
  // A pool with a short statement timeout: a batch that hangs is cancelled and retried soon. Other statements may take
  // longer.
  const pool = openPool({
    name: 'doorbuster-worker-persist',
    connections: 1 + Math.min(shards.all.length, WRITERS),
    statementMs: LIMITS.persistStatementMs,
  });
  return shards.all.map(({ index, commands, journal, histories, filler, log }) => {
    const cursor = new JournalCursor(database, index, shards.all.length > 1);
    return new Persist({
      database: pool,
      journal,
      cursor,
      histories,
      refused: new RefusedEntries(filler, new RedemptionsTable(database), cursor, metrics, log),
      requests: new RequestNames(commands),
      metrics,
      tracing,
      log,
      limits: { batchEntries: LIMITS.persistBatchEntries, idempotencyTtlMs: config.idempotencyTtlMs },
      publish,
    });
  });
}

/** Persists new journal entries of each shard for as long as the process runs. */
export function relayModule({ shards, name, life, metrics }: Core, persists: readonly Persist[]): void {
  for (const shard of shards.all) addRelay(shard, persists[shard.index] as Persist, { name, life, metrics });
}

function addRelay(
  { index, redis, gate, commands, log }: WorkerShard,
  persist: Persist,
  { name, life, metrics }: Pick<Core, 'name' | 'life' | 'metrics'>,
): void {
  const relay = new JournalRelay({
    shard: index,
    journal: new Journal(redis.forBlockingReads()),
    persist,
    inService: () => gate.isOpen,
    lease: new RelayLease(commands, name),
    metrics,
    log,
    limits: LIMITS,
  });
  life.add(`journal relay ${index}`, { start: () => relay.start(), quiet: () => relay.stop() });
}
