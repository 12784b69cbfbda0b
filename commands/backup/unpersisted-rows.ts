import { compareJournalIds } from '../../shared/redis/journal-ids.js';
import type { CommandShards } from '../command-shards.js';

/** Entries in one read. */
const BATCH = 5_000;

/** The columns of table `recovered_entries` that the rows have. */
export const RECOVERED_COLUMNS = ['journal_id', 'generation', 'number', 'fields', 'process_id', 'shard'] as const;

/**
 * Yields the journal entries of all shards that Postgres has not committed, up to the last one at the time of the call,
 * as lines of COPY.
 * @throws EngineUnavailable
 */
export async function* unpersistedRows(shards: CommandShards): AsyncGenerator<string> {
  for (let index = 0; index < shards.map.count; index += 1) {
    const { journal, cursor } = await shards.open(index);
    const last = await journal.lastId();
    // In this order, and before the read: what a worker persists from here on may be trimmed, but is in Postgres.
    let after = await cursor.read();
    while (compareJournalIds(after, last) < 0) {
      const entries = await journal.read(after, BATCH);
      for (const { journalId, fields } of entries) {
        const [generation, number] = journalId.split('-');
        yield `${[journalId, generation, number, escaped(JSON.stringify(fields)), 'backup', index].join('\t')}\n`;
      }
      const next = entries.at(-1)?.journalId;
      if (next === undefined) break;
      after = next;
    }
  }
}

/** A text in the format of COPY. JSON has neither tabs nor ends of lines. */
const escaped = (text: string): string => text.replaceAll('\\', '\\\\');
