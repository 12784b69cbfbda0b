import { LIMITS } from '../../shared/config/limits.js';
import { RedemptionsTable } from '../../shared/postgres/redemptions.js';
import { JournalCursor } from '../../shared/projection/journal-cursor.js';
import { Journal } from '../../shared/redis/journal.js';
import { RelayLease } from '../../shared/redis/relay-lease.js';
import type { Core } from '../core.js';
import { Persist, type PersistDeps } from './persist.js';
import { RefusedEntries } from './refused-entries.js';
import { JournalRelay } from './relay.js';

/** Persists the journal to Postgres. @param publish receives the events of each batch after its commit */
export function persistModule(
  { openPool, database, journal, history, filler, metrics, log }: Core,
  { publish }: Required<Pick<PersistDeps, 'publish'>>,
): Persist {
  const cursor = new JournalCursor(database);
  return new Persist({
    // A pool with a short statement timeout: a batch that hangs is cancelled and retried soon. Other statements may
    // take longer.
    database: openPool({
      name: 'doorbuster-worker-persist',
      connections: 2,
      statementMs: LIMITS.persistStatementMs,
    }),
    journal,
    cursor,
    histories: history.histories,
    refused: new RefusedEntries(filler, new RedemptionsTable(database), cursor, metrics, log),
    metrics,
    log,
    limits: { batchEntries: LIMITS.persistBatchEntries },
    publish,
  });
}

/** Persists new journal entries for as long as the process runs. */
export function relayModule(
  { redis, history: { gate }, commands, name, life, metrics, log }: Core,
  persist: Persist,
): void {
  const relay = new JournalRelay({
    journal: new Journal(redis.forJobs()),
    persist,
    inService: () => gate.isOpen,
    lease: new RelayLease(commands, name),
    metrics,
    log,
    limits: LIMITS,
  });
  life.add('journal relay', { start: () => relay.start(), quiet: () => relay.stop() });
}
