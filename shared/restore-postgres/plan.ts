import type { JournalEntry } from '../contracts/journal.js';
import { ACTORS } from '../domain/actors.js';
import { madeAtMs, type ReservationId, type UserId } from '../domain/ids.js';
import { ContractError } from '../errors/faults.js';
import { type FirstChange, rewindPlace } from '../image/rewind.js';
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

export function recordOfRow(row: SnapshotReservation): ReservationRecord {
  const { user, qty, slot, dueMs, lineNo, order, code, reduced } = row;
  const state = row.burned ? 'burned' : row.status === 'redeemed' && row.reacquired ? 'reacquired' : row.status;
  return { state, user, qty, slot, dueMs, lineNo, orderId: order, code, ...(reduced ? { reduced } : {}) };
}

/**
 * Makes the journal entries that Postgres lacks for a reservation, from its record. Times and names that only the
 * original entries had are estimated or empty.
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

/** A place in line that Postgres must have. */
export type PlannedPlace = { lineNo: number; status: NewTicket['status']; user: string } & PlaceDetails;
type PlaceDetails = { qty: number; reservation: string; order: string; code: number | null };

/**
 * The end of a place by the state of its user. A user with state `queued` who is not in line waited until the line was
 * closed.
 */
const ENDED: Record<string, TicketChange['status']> = { held: 'promoted', left: 'left', queued: 'closed' };

function endOf({ state }: PersonCopy): TicketChange['status'] {
  const status = ENDED[state];
  if (!status) throw new ContractError(`a person has the unknown state ${state}`);
  return status;
}

/**
 * How a place ended until the position, for which Postgres has a waiting user.
 * @param person the user's record, which may be about a later place
 * @param isMade whether the reservation of the place existed at the position
 * @returns null = the user still waited
 */
export function endOfPlace(
  { user, lineNo, reservation }: Pick<SnapshotTicket, 'user' | 'lineNo' | 'reservation'>,
  person: PersonCopy | null,
  isMade: boolean,
  first: FirstChange,
): TicketChange['status'] | null {
  if (isMade) return 'promoted';
  const ended = person && person.lineNo === lineNo && !person.inLine ? endOf(person) : 'left';
  const hasChanged = first('place', user) !== undefined;
  if (ended === 'left' && person?.lineNo === lineNo && !person.inLine && !hasChanged) return ended;
  // The user took the later place before the position.
  if (person && person.lineNo > lineNo && !hasChanged) return ended;
  const now = person?.inLine ? { lineNo: person.lineNo, reservation: person.reservation } : null;
  const place = rewindPlace(user, now, { lineNo, reservation }, first);
  return place?.lineNo === lineNo ? null : ended;
}

/**
 * The place in a user's record, as it was at the position; null = there was none, or its user was promoted, so that it
 * follows from the reservation (placeOfReservation).
 */
export function placeOfPerson(user: string, person: PersonCopy, first: FirstChange): PlannedPlace | null {
  const { inLine, lineNo, qty, reservation, order, code } = person;
  const [change, closing] = [first('place', user), first('line', '')];
  const place = { lineNo, user, qty, reservation, order, code };
  if (lineNo === 0 || person.state === 'held') return null;
  // A later entry is about this place, or the user took it later.
  if (change) return change.before?.lineNo === lineNo ? { ...place, status: 'waiting' } : null;
  const endsLater = person.state === 'queued' && closing !== undefined && lineNo <= closing.upTo;
  return { ...place, status: inLine || endsLater ? 'waiting' : endOf(person) };
}

/**
 * The place from which a reservation was made, as it was at the position; null = there was none.
 * @param isMade whether the reservation existed at the position
 */
export function placeOfReservation(
  id: string,
  { lineNo, user, qty, code, reduced = NOTHING_REDUCED }: ReservationRecord,
  isMade: boolean,
  first: FirstChange,
): PlannedPlace | null {
  const waited = first('place', user)?.before?.lineNo === lineNo;
  if (lineNo === 0 || (!isMade && !waited)) return null;
  const asked = qty + reduced.released + reduced.refunded;
  return { lineNo, status: isMade ? 'promoted' : 'waiting', user, qty: asked, reservation: id, order: '', code };
}

export function ticketOf(no: number, { lineNo, status, ...place }: PlannedPlace, nowMs: number): NewTicket {
  return {
    ...{ no, lineNo, status, ...place },
    atMs: madeAtMs(place.reservation as ReservationId),
    endedMs: status === 'waiting' ? null : nowMs,
    ...{ device: '', key: '', answer: '', trace: '', stacking: null },
  };
}
