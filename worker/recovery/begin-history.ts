import type { Epoch } from '../../shared/redis/epoch.js';
import {
  compareJournalIds,
  GENERATIONS_APART,
  generationOf,
  JOURNAL_START,
  nextId,
} from '../../shared/redis/journal-ids.js';
import type { Diagnosis, Look } from './diagnosis.js';
import type { RecoveryDeps } from './recovery-deps.js';
import { LockLost } from './recovery-lock.js';

type Deps = Pick<RecoveryDeps, 'database' | 'cursor' | 'histories' | 'journal'>;

/**
 * A generation of the shard later than all known ones. It is later even than those that Postgres has lost by being set
 * back, because it is at least the current time.
 */
export async function nextGeneration(
  { postgres, epoch, journal }: Look,
  nowMs: () => Promise<number>,
  shard: number,
): Promise<number> {
  const known = [
    postgres.latest?.generation,
    epoch?.generation,
    generationOf(postgres.cursor),
    generationOf(journal.lastId),
  ];
  const highest = Math.max(...known.map((generation) => generation ?? 0));
  const earliest = Math.max(highest + 1, Math.floor(await nowMs()));
  return earliest + ((((shard - earliest) % GENERATIONS_APART) + GENERATIONS_APART) % GENERATIONS_APART);
}

/**
 * Registers a history in Postgres while holding the lock on the cursor. From then on, no worker persists an older
 * history.
 * @param seen the cursor of the diagnosis
 * @returns `afterId`: the last entry of earlier histories that this one contains; `lastId`: the last entry of the
 *   journal; `drainable`: whether the journal continues the cursor
 * @throws LockLost when another worker has registered a later one, or when the diagnosis no longer holds
 */
export async function beginHistory(
  { database, cursor, histories, journal }: Deps,
  { epoch, seen }: { epoch: Epoch; seen: string },
  { reason, intact, behind }: Extract<Diagnosis, { kind: 'recover' }>,
  assertHeld: () => void,
): Promise<{ afterId: string; lastId: string; drainable: boolean }> {
  return database.transaction(async (client) => {
    const committed = await cursor.lock(client);
    const { firstId, lastId } = await journal.position();
    // A worker on the server before, or a repair from it, has persisted entries that this server never had.
    if (intact && committed !== seen && compareJournalIds(lastId, committed) < 0)
      throw new LockLost('entries of another server were persisted meanwhile');
    const follows =
      firstId !== null && isNextOrCommitted(firstId, committed) && compareJournalIds(lastId, committed) > 0;
    const drainable = !behind && follows;
    // An intact journal counts even after a gap. Only a Postgres that was set back has a gap.
    const afterId = drainable || (intact && compareJournalIds(lastId, committed) > 0) ? lastId : committed;
    assertHeld();
    if (!(await histories.begin(client, { ...epoch, afterId }, reason))) {
      throw new LockLost('another worker has begun a later history');
    }
    return { afterId, lastId, drainable: drainable && compareJournalIds(lastId, JOURNAL_START) > 0 };
  });
}

function isNextOrCommitted(firstId: string, cursor: string): boolean {
  return (
    compareJournalIds(firstId, cursor) <= 0 ||
    firstId === nextId(cursor) ||
    generationOf(firstId) > generationOf(cursor)
  );
}
