import type { JournalEntry } from '../../shared/contracts/journal.js';
import { type BatchMember, traceBatch } from '../../shared/observability/trace-batch.js';
import type { Tracing } from '../../shared/observability/tracing.js';

/** Records the spans of a committed batch: reading it, its transaction, and the commit. */
export function tracePersisted(
  tracing: Tracing,
  entries: readonly JournalEntry[],
  { startMs, upTo, shard }: { startMs: number; upTo: string; shard: number },
): void {
  traceBatch(
    tracing,
    {
      name: 'persist journal',
      kind: 'consumer',
      startMs,
      size: entries.length,
      attributes: {
        'messaging.system': 'redis',
        'messaging.destination.name': 'journal',
        'messaging.operation.name': 'persist',
        'messaging.operation.type': 'process',
        'doorbuster.shard': shard,
        'doorbuster.journal.up_to': upTo,
      },
    },
    membersOf(entries),
  );
}

function* membersOf(entries: readonly JournalEntry[]): Iterable<BatchMember> {
  for (const entry of entries) {
    if (!('trace' in entry) || entry.trace === '') continue;
    yield {
      trace: entry.trace,
      attributes: {
        'messaging.message.id': entry.journalId,
        'doorbuster.entry': entry.kind,
        ...('reservation' in entry ? { 'doorbuster.reservation': entry.reservation } : {}),
      },
    };
  }
}
