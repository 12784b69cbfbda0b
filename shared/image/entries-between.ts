import type { JournalEntry } from '../contracts/journal.js';
import { ACTORS } from '../domain/actors.js';
import { madeAtMs, type ReservationId } from '../domain/ids.js';
import { type RecordState, type ReservationRecord, takesUnits, unreduced } from '../sale/reservation-record.js';
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
  campaign: Pick<CampaignCopy, 'no' | 'version' | 'terms'>,
  { id, record, row, hasMark }: Change,
  nowMs: number,
): JournalEntry[] {
  const { state, dueMs, slot } = record;
  const base = { journalId: '', no: campaign.no, reservation: id, trace: '' };
  const by = ACTORS.reconcile;
  const entries: JournalEntry[] = [];
  const paidAtOnce = dueMs === 0;
  if (!row) {
    const isPromoted = record.lineNo > 0 && !paidAtOnce;
    const atMs = isPromoted ? dueMs - campaign.terms.holdSeconds * 1000 : madeAtMs(id as ReservationId);
    entries.push(reservedEntry(record, { ...base, atMs }, { terms: campaign.version }));
  }
  const at = { ...base, atMs: nowMs, by };
  // A new row begins with the deadline of the record.
  const isNewExtended = row === null && state === 'reserved' && hasMark;
  if (isNewExtended || isExtended(record, row)) entries.push({ ...at, kind: 'extended', dueMs });
  const reductions = row === null || record.qty < row.qty ? reductionsOf(record, row) : [];
  const ofReductions = (wasReleased: boolean): JournalEntry[] =>
    reductions.flatMap((part) => ((part.ending === 'released') === wasReleased ? [{ ...at, ...part }] : []));
  entries.push(...ofReductions(true));
  const had: RecordState | null = row?.state ?? (paidAtOnce ? 'redeemed' : 'reserved');
  if (had === state) return [...entries, ...ofReductions(false)];
  const wasPaid = had === 'redeemed' || had === 'reacquired';
  const isPaid = state === 'redeemed' || state === 'reacquired' || state === 'refunded' || state === 'burned';
  if (isPaid && !wasPaid) {
    entries.push({ ...at, kind: 'redeemed', slot, reacquired: state === 'reacquired', payment: '' });
  }
  entries.push(...ofReductions(false));
  if (state === 'released' || state === 'expired' || state === 'voided') {
    entries.push({ ...at, kind: state, reason: 'reconciled' });
  }
  if (state === 'refunded' || state === 'burned') {
    entries.push({ ...at, kind: 'refunded', burned: state === 'burned' });
  }
  return entries;
}

/**
 * What entries give back that the row lacks, one for each way: the record has no more than the sums. Released units
 * come first, because only unpaid units are released. Nothing shows whether refunded or burned ones came first.
 */
export function reductionsOf(
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
    const entry = { kind: 'reduced', before, qty, ...sumsUntilNow, reason: 'reconciled' } as const;
    before = qty;
    return [entry];
  });
}
