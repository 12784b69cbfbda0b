import { madeAtMs, type ReservationId, type UserId } from '../../shared/domain/ids.js';
import { ContractError } from '../../shared/errors/faults.js';
import { type FirstChange, rewindPlace } from '../../shared/image/rewind.js';
import { isPseudonym } from '../../shared/postgres/erasures.js';
import type { SnapshotTicket } from '../../shared/postgres/snapshot.js';
import type { NewTicket, TicketChange } from '../../shared/projection/projection.js';
import { type ReservationRecord, unreduced } from '../../shared/sale/reservation-record.js';
import type { PersonCopy } from '../../shared/sale/sale-copy.js';

/** Whether the user of a reservation was erased since (decision 56): Redis has a pseudonym, and the row another id. */
export function isErased(record: ReservationRecord | null, row: ReservationRecord | null): boolean {
  return record !== null && row !== null && record.user !== row.user && isPseudonym(record.user as UserId);
}

/** A place in line that Postgres must have. */
export type PlannedPlace = Pick<NewTicket, 'lineNo' | 'status' | 'user' | 'qty' | 'reservation' | 'order' | 'code'>;

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
 * The place that a user had at the position and left since, although the record is about a later place or a unit; null
 * = there is none.
 */
export function placeLeftSince(user: string, { lineNo }: PersonCopy, first: FirstChange): PlannedPlace | null {
  const { before, left } = first('place', user) ?? {};
  return before && left && before.lineNo !== lineNo
    ? { lineNo: before.lineNo, status: 'waiting', user, ...left }
    : null;
}

/**
 * The place from which a reservation was made, as it was at the position; null = there was none.
 * @param isMade whether the reservation existed at the position
 */
export function placeOfReservation(
  id: string,
  { lineNo, user, qty, code, reduced = unreduced }: ReservationRecord,
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
    ...{ device: '', key: '', answer: '', trace: '', stacking: null, metadata: null },
  };
}
