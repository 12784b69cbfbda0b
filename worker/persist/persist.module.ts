import { LIMITS } from '../../shared/config/limits.js';
import { queueOf } from '../../shared/contracts/jobs.js';
import { RedemptionsTable } from '../../shared/postgres/redemptions.js';
import { Journal } from '../../shared/redis/journal.js';
import { RequestNames } from '../../shared/redis/request-names.js';
import { SaleCopy } from '../../shared/sale/sale-copy.js';
import type { Core } from '../core.js';
import { DrainJournal } from './drain-journal.js';
import { JournalFeeder } from './feeder.js';
import { Persist, type PersistDeps } from './persist.js';
import { RefusedEntries } from './refused-entries.js';

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
    statementMs: LIMITS.postgres.persistStatementMs,
  });
  return shards.all.map(({ commands, journal, histories, filler, cursor, log }) => {
    return new Persist({
      database: pool,
      journal,
      cursor,
      histories,
      refused: new RefusedEntries({
        ...{ sale: filler, copy: new SaleCopy(commands), database: pool },
        ...{ redemptions: new RedemptionsTable(database), cursor, metrics, log },
      }),
      requests: new RequestNames(commands),
      metrics,
      tracing,
      log,
      limits: { batchEntries: LIMITS.persist.batchEntries, idempotencyTtlMs: config.idempotencyTtlMs },
      publish,
    });
  });
}

/** What drains the journal of one shard. */
export type Persisting = { drain: DrainJournal };

/** Creates what runs the jobs of the queue `persist`, by shard. */
export function drainModule({ shards, queues, metrics }: Core, persists: readonly Persist[]): Persisting[] {
  return shards.all.map(({ index, redis, gate, clock }) => {
    const drain = new DrainJournal({
      shard: index,
      journal: new Journal(redis.forBlockingReads()),
      persist: persists[index] as Persist,
      gate,
      clock,
      goOn: (upTo) => queues.add('persist', { shard: index, upTo }, index),
      metrics,
      limits: LIMITS.persist,
    });
    return { drain };
  });
}

/**
 * Adds jobs to the queue `persist` of each shard for as long as the process runs. When it stops, the runs of this
 * process end, so that the workers of the queues can close.
 */
export function feederModule(
  { shards, queues, life, metrics }: Core,
  persisting: readonly Persisting[],
  onFailed: (queue: string, error: unknown) => void,
): void {
  for (const { index, gate, commits } of shards.all) {
    const { drain } = persisting[index] as Persisting;
    const feeder = new JournalFeeder({
      journal: drain.deps.journal,
      commits,
      drain,
      add: (upTo) => queues.add('persist', { shard: index, upTo }, index),
      inService: () => gate.isOpen,
      onFallback: () => metrics.queueFallbacks.inc({ queue: 'persist' }),
      onFailed: (error) => onFailed(queueOf('persist', index), error),
      limits: LIMITS.persist,
    });
    life.add(`journal feeder ${index}`, {
      start: () => feeder.start(),
      async quiet() {
        drain.stop();
        await feeder.stop();
      },
    });
  }
}
