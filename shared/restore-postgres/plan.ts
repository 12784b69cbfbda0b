import type { JournalEntry } from '../contracts/journal.js';
import { ACTORS } from '../domain/actors.js';
import { madeAtMs, type ReservationId, type UserId } from '../domain/ids.js';
import { ContractError } from '../errors/faults.js';
import { isPseudonym } from '../postgres/erasures.js';
import type { SnapshotReservation, SnapshotTicket } from '../postgres/snapshot.js';
import type { NewTicket, TicketChange } from '../projection/projection.js';
import { type RecordState, type Reduced, type ReservationRecord, takesUnits } from '../sale/reservation-record.js';
import type { CampaignCopy, PersonCopy } from '../sale/sale-copy.js';

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

const NOTHING_REDUCED: Reduced = { released: 0, refunded: 0, burned: 0 };

export function stepOf(record: ReservationRecord | null, row: ReservationRecord | null): Step {
  if (!record) return row && row.state !== 'voided' ? 'left_alone' : 'nothing';
  if (!row) return record.state === 'voided' ? 'nothing' : 'insert';
  const isReduced = record.qty < row.qty && row.state !== 'voided';
  if (rowState(record) === rowState(row)) {
    if (isReduced) return 'end';
    if (record.qty > row.qty && record.state !== 'voided') return 'left_alone';
    return isExtended(record, row) ? 'advance' : 'nothing';
  }
  if (!LATER[row.state].includes(record.state) || record.qty > row.qty) return 'left_alone';
  return takesUnits(row.state) && (!takesUnits(record.state) || isReduced) ? 'end' : 'advance';
}

/** Whether the user of a reservation was erased since (decision 56): Redis has a pseudonym, and the row another id. */
export function isErased(record: ReservationRecord | null, row: ReservationRecord | null): boolean {
  return record !== null && row !== null && record.user !== row.user && isPseudonym(record.user as UserId);
}

/** Whether Redis has a later deadline for a reservation that is unpaid on both sides. */
function isExtended(record: ReservationRecord, row: ReservationRecord | null): boolean {
  return record.state === 'reserved' && row?.state === 'reserved' && record.dueMs > row.dueMs;
}

/** The state in a row, which does not distinguish late payments. */
function rowState({ state }: ReservationRecord): RecordState {
  return state === 'reacquired' ? 'redeemed' : state;
}

/**
 * Applies an entry to a reservation.
 * @param record null = the entry makes the reservation, or the reservation is unknown
 */
export function applied(record: ReservationRecord | null, entry: JournalEntry): ReservationRecord | null {
  switch (entry.kind) {
    case 'reserved': {
      const { state, user, qty, slot, dueMs, lineNo, order, code } = entry;
      return { state, user, qty, slot, dueMs, lineNo, orderId: order, code };
    }
    case 'redeemed':
      return record && { ...record, state: entry.reacquired ? 'reacquired' : 'redeemed', slot: entry.slot };
    case 'released':
    case 'expired':
    case 'voided':
      return record && { ...record, state: entry.kind };
    case 'extended':
      return record && { ...record, dueMs: entry.dueMs };
    case 'reduced': {
      const { qty, released, refunded, burned } = entry;
      return record && { ...record, qty, reduced: { released, refunded, burned } };
    }
    case 'refunded':
      return record && { ...record, state: entry.burned ? 'burned' : 'refunded' };
    default:
      return record;
  }
}

export function recordOfRow(row: SnapshotReservation): ReservationRecord {
  const { user, qty, slot, dueMs, lineNo, order, code, reduced } = row;
  const state = row.burned ? 'burned' : row.status === 'redeemed' && row.reacquired ? 'reacquired' : row.status;
  return { state, user, qty, slot, dueMs, lineNo, orderId: order, code, ...(reduced ? { reduced } : {}) };
}

/**
 * Makes the journal entries that Postgres lacks for a reservation, from its record. Times and names that only the
 * original entries have are estimated or empty. If the journal still has the entries, these are filled in later.
 */
export function missingEntries(
  campaign: CampaignCopy,
  id: string,
  record: ReservationRecord,
  row: ReservationRecord | null,
  nowMs: number,
): JournalEntry[] {
  const { state, dueMs, slot } = record;
  const base = { journalId: '', no: campaign.no, reservation: id, trace: '' };
  const by = ACTORS.reconcile;
  const entries: JournalEntry[] = [];
  const paidAtOnce = dueMs === 0;
  if (!row) {
    const { user, orderId: order, qty, lineNo, code } = record;
    entries.push({
      ...base,
      kind: 'reserved',
      atMs: lineNo > 0 && dueMs > 0 ? dueMs - campaign.terms.holdSeconds * 1000 : madeAtMs(id as ReservationId),
      user,
      order,
      qty,
      slot,
      dueMs,
      lineNo,
      state: paidAtOnce ? 'redeemed' : 'reserved',
      code,
      terms: campaign.version,
      key: '',
      answer: '',
      device: '',
      stacking: null,
    });
  }
  const at = { ...base, atMs: nowMs, by };
  if (isExtended(record, row)) entries.push({ ...at, kind: 'extended', dueMs });
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
 * The entries that give back what the row lacks, one for each way: the record has no more than the sums. Released units
 * come first, because only unpaid units are released. Nothing shows whether refunded or burned ones came first.
 */
function reductionsOf(record: ReservationRecord, row: ReservationRecord | null) {
  const { released, refunded, burned } = record.reduced ?? NOTHING_REDUCED;
  const had = row?.reduced ?? NOTHING_REDUCED;
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

/** A place in line as it should be in Postgres. */
export type PlaceTarget = {
  lineNo: number;
  status: SnapshotTicket['status'];
  /** null = only the end of the place is known. */
  details: { user: string; qty: number; reservation: string; order: string; code: number | null } | null;
};

/**
 * The end of a place by the state of its user. A user with state `queued` who is not in line waited until the line was
 * closed.
 */
const ENDED: Record<string, PlaceTarget['status']> = { held: 'promoted', left: 'left', queued: 'closed' };

/**
 * The places that follow from the records in Redis: users in line, users whose place ended, and promoted reservations.
 */
export function placesOf(
  people: ReadonlyMap<string, PersonCopy>,
  reservations: ReadonlyMap<string, ReservationRecord>,
  tail: readonly JournalEntry[],
): Map<number, PlaceTarget> {
  const places = new Map<number, PlaceTarget>();
  for (const [user, { state, inLine, lineNo, qty, reservation, order, code }] of people) {
    if (lineNo === 0) continue;
    const status = inLine ? 'waiting' : ENDED[state];
    if (!status) throw new ContractError(`a person has the unknown state ${state}`);
    places.set(lineNo, { lineNo, status, details: { user, qty, reservation, order, code } });
  }
  for (const [reservation, { user, qty, lineNo, code }] of reservations) {
    if (lineNo === 0) continue;
    places.set(lineNo, { lineNo, status: 'promoted', details: { user, qty, reservation, order: '', code } });
  }
  for (const entry of tail) {
    if (entry.kind === 'queued') {
      const { user, qty, reservation, order, code, lineNo } = entry;
      places.set(lineNo, { lineNo, status: 'waiting', details: { user, qty, reservation, order, code } });
    } else if (entry.kind === 'left') {
      const details = places.get(entry.lineNo)?.details ?? null;
      places.set(entry.lineNo, { lineNo: entry.lineNo, status: entry.ending, details });
    } else if (entry.kind === 'reserved' && entry.lineNo > 0) {
      const { user, qty, reservation, order, code, lineNo } = entry;
      places.set(lineNo, { lineNo, status: 'promoted', details: { user, qty, reservation, order, code } });
    }
  }
  return places;
}

export type PlaceSteps = { inserts: NewTicket[]; ends: TicketChange[] };

/**
 * Plans the changes of places in Postgres.
 * @param tickets the rows with these line numbers, and the waiting rows of the same users
 */
export function placeSteps(
  no: number,
  places: ReadonlyMap<number, PlaceTarget>,
  tickets: readonly SnapshotTicket[],
  nowMs: number,
): PlaceSteps {
  const steps: PlaceSteps = { inserts: [], ends: [] };
  const known = new Set(tickets.map(({ lineNo }) => lineNo));
  for (const { lineNo, status } of tickets) {
    if (status !== 'waiting') continue;
    // A user without this place in Redis has left it.
    const target = places.get(lineNo)?.status ?? 'left';
    if (target !== 'waiting') steps.ends.push({ no, lineNo, status: target, endedMs: nowMs });
  }
  for (const { lineNo, status, details } of places.values()) {
    if (known.has(lineNo) || !details) continue;
    const { user, qty, reservation, order, code } = details;
    const joined = madeAtMs(reservation as ReservationId);
    steps.inserts.push({
      no,
      lineNo,
      status,
      user,
      qty,
      reservation,
      order,
      code,
      atMs: joined,
      endedMs: status === 'waiting' ? null : nowMs,
      device: '',
      key: '',
      answer: '',
      trace: '',
      stacking: null,
    });
  }
  return steps;
}
