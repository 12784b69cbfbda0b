import type { JournalCursor } from '../../shared/projection/journal-cursor.js';
import type { Journal } from '../../shared/redis/journal.js';
import { compareJournalIds } from '../../shared/redis/journal-ids.js';

const LOOK_EVERY_MS = 20;

/**
 * Waits until Postgres has all entries that the journal has now. Gives up if the cursor does not move for `limitMs`.
 */
export async function untilPersisted(
  { journal, cursor }: { journal: Journal; cursor: JournalCursor },
  limitMs: number,
): Promise<void> {
  const target = await journal.lastId();
  let deadline = performance.now() + limitMs;
  let before = '';
  while (performance.now() < deadline) {
    const committed = await cursor.read();
    if (compareJournalIds(committed, target) >= 0) return;
    if (committed !== before) deadline = performance.now() + limitMs;
    before = committed;
    await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
  }
}
