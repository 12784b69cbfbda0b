import type { EntryOf } from '../contracts/journal.js';
import type { ReservationRecord } from '../sale/reservation-record.js';

type Reserved = EntryOf<'reserved'>;

/**
 * Returns the journal entry that makes a reservation, from its record.
 * @param about `atMs`: when it was made; a record does not have it
 * @param known what only the original entry had; otherwise it is empty
 */
export function reservedEntry(
  { user, qty, slot, dueMs, lineNo, orderId: order, code }: ReservationRecord,
  { journalId, no, atMs, reservation, trace }: Pick<Reserved, 'journalId' | 'no' | 'atMs' | 'reservation' | 'trace'>,
  known: Partial<Pick<Reserved, 'lineNo' | 'terms' | 'key' | 'answer' | 'stacking'>> = {},
): Reserved {
  return {
    kind: 'reserved',
    ...{ journalId, no, atMs, reservation, trace },
    ...{ user, order, qty, slot, dueMs, lineNo, code },
    state: dueMs === 0 ? 'redeemed' : 'reserved',
    ...{ terms: 0, key: '', answer: '', device: '', stacking: null },
    ...known,
  };
}
