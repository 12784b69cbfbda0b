import type { EntryOf, JournalEntry } from '../../shared/contracts/journal.js';
import { ACTORS } from '../../shared/domain/actors.js';
import { changesBetween } from '../../shared/image/entries-between.js';
import { reservedEntry } from '../../shared/image/reserved-entry.js';
import { decodeStoredRequest } from '../../shared/redis/idempotency-record.js';
import type { Acknowledged } from '../../shared/sale/acknowledged.js';
import { isPaid, isRefunded } from '../../shared/sale/reservation-record.js';
import type { KnownReservation } from './known-rows.js';

export type OfReservation = Acknowledged & { of: Extract<Acknowledged['of'], { kind: 'reservation' }> };
export type OfPlace = Acknowledged & { of: Extract<Acknowledged['of'], { kind: 'place' }> };
/** Reason in the row of a reservation that was voided in Redis, and that Postgres had not voided yet. */
const VOIDED_IN_REDIS = 'voided_in_redis';
/** The row that the fact is compared with. `isNew`: it is made from this fact, so it has the units that are left. */
type Row = KnownReservation & { isNew: boolean };

export function isOfReservation(fact: Acknowledged): fact is OfReservation {
  return fact.of.kind === 'reservation';
}

/**
 * Returns why a row contradicts a fact: a later history took another decision about the reservation. null = the row can
 * follow from the fact, or the fact from the row. A voided row has its event, and a voided fact promises nothing.
 */
export function contradictionOf(row: KnownReservation, { atMs, of }: OfReservation): string | null {
  const { state, qty, reduced } = of.record;
  const { status } = row;
  if (status === 'voided' || state === 'voided') return null;
  const hasChanged = row.changedMs > atMs;
  const isEnded = status === 'released' || status === 'expired';
  const isOtherwise =
    state === 'released' || state === 'expired'
      ? (status === 'redeemed' || status === 'refunded') && !row.reacquired
      : hasChanged && ((isPaid(state) && isEnded) || (isRefunded(state) && status === 'redeemed'));
  if (isOtherwise) return `it was acknowledged as ${state}, and the reservation is ${status}`;
  const takesMore = hasChanged && (status === 'redeemed' || row.burned);
  // No unit is taken, but money may have been paid back twice: for these units, and for all of them.
  const lacksRefund = status === 'refunded' && (reduced?.refunded ?? 0) > 0;
  return row.qty > qty && (takesMore || lacksRefund)
    ? `it was acknowledged with the quantity ${qty}, and the reservation has ${row.qty}`
    : null;
}

/** Returns the entry of an acknowledged reservation that Postgres lacks, as it was before it was paid or ended. */
export function reservedFrom(fact: OfReservation): EntryOf<'reserved'> {
  const { user, lineNo, stacking, key, answer, of } = fact;
  const response = decodeStoredRequest(answer)?.record;
  // A voided reservation gets no response back: its key is free.
  const isOwn = response?.kind === 'completed' && of.record.state !== 'voided';
  // It was made before its deadline, and the time of the fact may be later.
  const about = { ...fact, atMs: paidInTimeMs(fact), trace: '' };
  const known = { lineNo, stacking, ...(isOwn ? { terms: response.terms, key, answer } : {}) };
  return reservedEntry({ ...of.record, user }, about, known);
}

/** Returns the entry of an acknowledged place that Postgres lacks. */
export function queuedFrom(fact: OfPlace): EntryOf<'queued'> {
  const { journalId, no, atMs, reservation, user, lineNo, stacking, key, answer, of } = fact;
  const entry = { journalId, no, atMs, reservation, user, lineNo, stacking, key, answer };
  return { kind: 'queued', ...entry, qty: of.qty, order: of.order, code: of.code, device: '', trace: '' };
}

/** Returns the entries that lead from a row to an acknowledged reservation; none if the row has ended otherwise. */
export function entriesBetween(row: Row, fact: OfReservation): JournalEntry[] {
  const { journalId, no, atMs, reservation, of } = fact;
  const { state, dueMs } = of.record;
  if (state === 'voided' && !isActive(row, atMs)) return [];
  const had = row.burned ? 'burned' : row.status;
  return changesBetween(of.record, row.isNew ? null : { ...row, state: had }, {
    ...{ journalId, no, atMs, reservation, by: ACTORS.recovery, trace: '', reason: '' },
    endReason: state === 'voided' ? VOIDED_IN_REDIS : state === 'expired' ? 'deadline' : '',
    paidMs: state === 'reacquired' ? atMs : paidInTimeMs(fact),
    payments: of.payments,
    // A row that was made from a record has the extended deadline, and not yet that it was extended.
    isExtended: row.status === 'reserved' && (dueMs > row.dueMs || (of.isExtended && !row.extended)),
  });
}

/** A time before the deadline: that of the fact, if it is early enough. */
function paidInTimeMs({ atMs, of }: OfReservation): number {
  return of.record.dueMs === 0 ? atMs : Math.min(atMs, of.record.dueMs - 1);
}

/** Whether the reservation takes units, and was not paid after `atMs`. */
function isActive({ status, changedMs }: Row, atMs: number): boolean {
  return status === 'reserved' || (status === 'redeemed' && changedMs <= atMs);
}
