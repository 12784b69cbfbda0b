import { setTimeout as sleep } from 'node:timers/promises';
import { LIMITS } from '../config/limits.js';
import { EngineUnavailable } from '../errors/faults.js';
import type { Database } from '../postgres/pool.js';
import { JournalCursor } from '../projection/journal-cursor.js';
import { compareJournalIds } from '../redis/journal-ids.js';
import type { Shard } from './shard.js';

const LOOK_EVERY_MS = 20;

/** Resolves when Postgres has what the journal of a shard has now. @throws EngineUnavailable if that takes too long */
export async function untilWritten(
  database: Database,
  { index, journal }: Pick<Shard, 'index' | 'journal'>,
): Promise<void> {
  const cursor = new JournalCursor(database, index);
  const upTo = await journal.lastId();
  const until = performance.now() + LIMITS.claims.durableWaitMs;
  while (compareJournalIds(await cursor.read(), upTo) < 0) {
    if (performance.now() > until) throw new EngineUnavailable('postgres', `the journal was not written up to ${upTo}`);
    await sleep(LOOK_EVERY_MS, undefined, { ref: false });
  }
}
