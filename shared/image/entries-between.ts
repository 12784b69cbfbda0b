import type { EntryOf, JournalEntry } from '../contracts/journal.js';
import { ACTORS } from '../domain/actors.js';
import { madeAtMs, type ReservationId } from '../domain/ids.js';
import {
  isPaid,
  isRefunded,
  type RecordState,
  type ReservationRecord,
  takesUnits,
  unreduced,
} from '../sale/reservation-record.js';
import type { CampaignCopy } from '../sale/sale-copy.js';
import { factOf } from './facts.js';
import { reservedEntry } from './reserved-entry.js';

/**
 * A reservation that Postgres lacks (`row` null), or has in an earlier state. `hasMark`: Redis marks it as extended, if
 * it is unpaid.
 */
export type Change = { id: string; record: ReservationRecord; row: ReservationRecord | null; hasMark: boolean };

/**
 * The change that one reservation needs in Postgres. `end`: frees its unit, so it is written before changes that take
 * units. `left_alone`: only Postgres has the reservation or its later state, or Postgres voided it; an operator must
 * decide.
 */
export type Step = 'nothing' | 'insert' | 'end' | 'advance' | 'left_alone';

/** For each state, the states that a row may reach later. */
const LATER: Record<RecordState, readonly RecordState[]> = {
  reserved: ['redeemed', 'reacquired', 'released', 'expired', 'refunded', 'burned', 'voided'],
  redeemed: ['refunded', 'burned', 'voided'],
  reacquired: ['refunded', 'burned', 'voided'],
  released: ['reacquired', 'refunded', 'burned', 'voided'],
  expired: ['reacquired', 'refunded', 'burned', 'voided'],
  refunded: [],
  burned: [],
  voided: [],
};

export function stepOf(record: ReservationRecord | null, row: ReservationRecord | null): Step {
  if (!record) return row && row.state !== 'voided' ? 'left_alone' : 'nothing';
  if (!row) return record.state === 'voided' ? 'nothing' : 'insert';
  const isReduced = record.qty < row.qty && row.state !== 'voided';
  // A row does not distinguish late payments.
  if (factOf(record).state === factOf(row).state) {
    if (isReduced) return 'end';
    if (record.qty > row.qty && record.state !== 'voided') return 'left_alone';
    return isExtended(record, row) ? 'advance' : 'nothing';
  }
  if (!LATER[row.state].includes(record.state) || record.qty > row.qty) return 'left_alone';
  return takesUnits(row.state) && (!takesUnits(record.state) || isReduced) ? 'end' : 'advance';
}

/** Whether Redis has a later deadline for a reservation that is unpaid on both sides. */
function isExtended(record: ReservationRecord, row: ReservationRecord | null): boolean {
  return record.state === 'reserved' && row?.state === 'reserved' && record.dueMs > row.dueMs;
}

/**
 * Makes the journal entries that Postgres lacks for a reservation, from its record. Times and names that only the
 * original entries had are estimated or empty.
 */
export function entriesBetween(
  campaign: Pick<CampaignCopy, 'no' | 'version' | 'terms' | 'former'>,
  { id, record, row, hasMark }: Change,
  nowMs: number,
): JournalEntry[] {
  const { state, dueMs } = record;
  const base = { journalId: '', no: campaign.no, reservation: id, trace: '' };
  const entries: JournalEntry[] = [];
  if (!row) {
    const isPromoted = record.lineNo > 0 && dueMs > 0;
    const atMs = isPromoted ? dueMs - campaign.terms.holdSeconds * 1000 : madeAtMs(id as ReservationId);
    entries.push(reservedEntry(record, { ...base, atMs }, { terms: versionAt(campaign, atMs) }));
  }
  // A new row begins with the deadline of the record.
  const isNewExtended = row === null && state === 'reserved' && hasMark;
  const reasons = { reason: 'reconciled', endReason: 'reconciled' };
  const about = { ...base, ...reasons, atMs: nowMs, paidMs: nowMs, by: ACTORS.reconcile, payments: [] };
  entries.push(...changesBetween(record, row, { ...about, isExtended: isNewExtended || isExtended(record, row) }));
  return entries;
}

/** The terms that were in force at a time. An idempotency record has those of its reservation, while it is kept. */
function versionAt({ version, former }: Pick<CampaignCopy, 'version' | 'former'>, atMs: number): number {
  return former.findLast(({ until }) => until > atMs)?.version ?? version;
}

/** What a record does not say of its changes. `reason`: of units that were given back. `endReason`: of an end. */
export type AboutChanges = Omit<EntryOf<'released' | 'expired' | 'voided'>, 'kind'> & {
  endReason: string;
  paidMs: number;
  /** References of its payments, the oldest first, that are written with the entries. */
  payments: readonly string[];
  isExtended: boolean;
};

/**
 * Makes the entries that lead from a row to a later record; none for a row that has ended otherwise, or is later.
 * @param row null = as the reservation was made from the record
 */
export function changesBetween(
  record: Pick<ReservationRecord, 'state' | 'qty' | 'slot' | 'dueMs' | 'reduced'>,
  row: Pick<ReservationRecord, 'state' | 'qty' | 'reduced'> | null,
  { reason, endReason, paidMs, payments, isExtended: isNowExtended, ...about }: AboutChanges,
): JournalEntry[] {
  const { state, dueMs, slot } = record;
  const had = row?.state ?? (dueMs === 0 ? 'redeemed' : 'reserved');
  const isPaidNow = isPaid(state) && (had === 'reserved' || had === 'released' || had === 'expired');
  const isRedeemed = isPaidNow || had === 'redeemed' || had === 'reacquired';
  const mayGiveBack = (row === null || record.qty < row.qty) && (isRedeemed || had === 'reserved' || had === state);
  const given = mayGiveBack ? reductionsOf(record, row).map((part) => ({ ...about, ...part, reason })) : [];
  const entries: JournalEntry[] = isNowExtended ? [{ ...about, kind: 'extended', dueMs }] : [];
  // Only unpaid units are released, so the payment is for the others.
  entries.push(...given.filter(({ ending }) => ending === 'released'));
  const [first = '', ...further] = payments;
  const reacquired = had !== 'reserved' || state === 'reacquired';
  if (isPaidNow) entries.push({ ...about, atMs: paidMs, kind: 'redeemed', slot, reacquired, payment: first });
  // Writing a payment that Postgres has changes nothing.
  else if (isRedeemed && first !== '') entries.push({ ...about, kind: 'paid_again', payment: first, first: '' });
  if (isRedeemed) for (const payment of further) entries.push({ ...about, kind: 'paid_again', payment, first });
  entries.push(...given.filter(({ ending }) => ending !== 'released'));
  if (had === state) return entries;
  if (isRedeemed && isRefunded(state)) entries.push({ ...about, kind: 'refunded', burned: state === 'burned' });
  if (state === 'voided' || (had === 'reserved' && (state === 'released' || state === 'expired')))
    entries.push({ ...about, kind: state, reason: endReason });
  return entries;
}

/**
 * What entries give back that the row lacks, one for each way: the record has no more than the sums. Released units
 * come first, because only unpaid units are released. Nothing shows whether refunded or burned ones came first.
 */
function reductionsOf(
  record: Pick<ReservationRecord, 'qty' | 'reduced'>,
  row: Pick<ReservationRecord, 'reduced'> | null,
) {
  const { released, refunded, burned } = record.reduced ?? unreduced;
  const had = row?.reduced ?? unreduced;
  const returned = refunded - burned - (had.refunded - had.burned);
  const sums = { released, refunded: had.refunded + returned, burned: had.burned };
  const parts = [
    { ...sums, ending: 'released', refunded: had.refunded, units: released - had.released },
    { ...sums, ending: 'refunded', units: returned },
    { ...sums, ending: 'burned', refunded, burned, units: burned - had.burned },
  ] as const;
  let before = record.qty + parts.reduce((sum, { units }) => sum + units, 0);
  return parts.flatMap(({ units, ...sumsUntilNow }) => {
    if (units <= 0) return [];
    const qty = before - units;
    const entry = { kind: 'reduced', before, qty, ...sumsUntilNow } as const;
    before = qty;
    return [entry];
  });
}
