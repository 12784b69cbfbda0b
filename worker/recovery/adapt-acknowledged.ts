import type { EntryOf, JournalEntry } from '../../shared/contracts/journal.js';
import { decodeStoredRequest } from '../../shared/redis/idempotency-record.js';
import type { Acknowledged } from '../../shared/sale/acknowledged.js';

type OfReservation = Acknowledged & { of: Extract<Acknowledged['of'], { kind: 'reservation' }> };
/** The row that the fact is compared with. `isNew`: it is made from this fact, so it has the units that are left. */
type Row = { status: string; qty: number; dueMs: number; isNew: boolean };

export function isOfReservation(fact: Acknowledged): fact is OfReservation {
  return fact.of.kind === 'reservation';
}

/** Returns the entry of an acknowledged reservation that Postgres lacks, as it was before it was paid or ended. */
export function reservedFrom(fact: OfReservation): EntryOf<'reserved'> {
  const { journalId, no, reservation, user, lineNo, stacking, key, answer, of } = fact;
  const { orderId: order, qty, slot, dueMs, code } = of.record;
  const response = decodeStoredRequest(answer)?.record;
  const isOwn = response?.kind === 'completed';
  return {
    kind: 'reserved',
    journalId,
    no,
    // It was made before its deadline, and the time of the fact may be later.
    atMs: paidInTimeMs(fact),
    reservation,
    user,
    order,
    qty,
    slot,
    dueMs,
    lineNo,
    state: dueMs === 0 ? 'redeemed' : 'reserved',
    code,
    terms: isOwn ? response.terms : 0,
    key: isOwn ? key : '',
    answer: isOwn ? answer : '',
    device: '',
    trace: '',
    stacking,
  };
}

/** Returns the entry of an acknowledged place that Postgres lacks. */
export function queuedFrom(
  fact: Acknowledged,
  place: Extract<Acknowledged['of'], { kind: 'place' }>,
): EntryOf<'queued'> {
  const { journalId, no, atMs, reservation, user, lineNo, stacking, key, answer } = fact;
  const { qty, order, code } = place;
  const entry = { journalId, no, atMs, reservation, user, order, qty, lineNo, code, key, answer, stacking };
  return { kind: 'queued', ...entry, device: '', trace: '' };
}

/** Returns the entries that lead from a row to an acknowledged reservation; none if the row has ended otherwise. */
export function entriesBetween(row: Row, fact: OfReservation): JournalEntry[] {
  const { journalId, no, atMs, reservation, of } = fact;
  const { state, qty, dueMs, slot, reduced } = of.record;
  const about = { journalId, no, atMs, reservation, trace: '' };
  const entries: JournalEntry[] = [];
  let { status } = row;
  const isPaid = state === 'redeemed' || state === 'reacquired' || state === 'refunded' || state === 'burned';
  if (status === 'reserved' && dueMs > row.dueMs) entries.push({ kind: 'extended', ...about, dueMs });
  const isPaidNow = isPaid && (status === 'reserved' || status === 'released' || status === 'expired');
  const [first = '', ...further] = of.payments;
  if (isPaidNow) {
    const paidMs = state === 'reacquired' ? atMs : paidInTimeMs(fact);
    const reacquired = status !== 'reserved';
    entries.push({ kind: 'redeemed', ...about, atMs: paidMs, slot, reacquired, payment: first });
    status = 'redeemed';
  }
  if (status === 'redeemed') {
    // Writing a payment that Postgres has changes nothing.
    if (!isPaidNow && first !== '') entries.push({ kind: 'paid_again', ...about, payment: first, first: '' });
    entries.push(...further.map((payment) => ({ kind: 'paid_again', ...about, payment, first }) as const));
  }
  if (reduced && (row.isNew || row.qty > qty) && (status === 'redeemed' || status === 'reserved')) {
    const { released, refunded, burned } = reduced;
    const ending = refunded === 0 ? 'released' : burned > 0 ? 'burned' : 'refunded';
    const before = row.isNew ? qty + released + refunded : row.qty;
    entries.push({ kind: 'reduced', ...about, before, qty, ending, released, refunded, burned, reason: '' });
  }
  if (status === 'redeemed' && (state === 'refunded' || state === 'burned'))
    entries.push({ kind: 'refunded', ...about, burned: state === 'burned' });
  if (status === 'reserved' && (state === 'released' || state === 'expired'))
    entries.push({ kind: state, ...about, reason: state === 'expired' ? 'deadline' : '' });
  return entries;
}

/** A time before the deadline: that of the fact, if it is early enough. */
function paidInTimeMs({ atMs, of }: OfReservation): number {
  return of.record.dueMs === 0 ? atMs : Math.min(atMs, of.record.dueMs - 1);
}
