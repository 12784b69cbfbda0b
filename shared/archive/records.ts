import type { SnapshotReservation, SnapshotTicket } from '../postgres/snapshot.js';
import type { PersonRecord } from '../sale/person-record.js';
import { type RecordState, type ReservationRecord, takesUnits } from '../sale/reservation-record.js';

/** `sinceMs`: time of what the record says. */
export type SeatedPerson = PersonRecord & { sinceMs: number };

export function recordOf(row: SnapshotReservation): ReservationRecord {
  const state: RecordState = row.burned
    ? 'burned'
    : row.status === 'redeemed' && row.reacquired
      ? 'reacquired'
      : row.status;
  return {
    state,
    user: row.user,
    qty: row.qty,
    slot: row.slot,
    dueMs: row.dueMs,
    lineNo: row.lineNo,
    orderId: row.order,
    code: row.code,
  };
}

/** A user with one more reservation: the record follows the latest one, the allowances are those of all that are active. */
export function withReservation(person: SeatedPerson | undefined, row: SnapshotReservation): SeatedPerson {
  const slots = [...(person?.slots ?? []), ...(takesUnits(recordOf(row).state) ? [row.slot] : [])];
  // One that was taken again counts as the latest, also of two in one millisecond.
  const sinceMs = row.reacquired ? Math.max(row.reservedMs, row.redeemedMs) + 0.5 : row.reservedMs;
  if (person && person.sinceMs > sinceMs) return { ...person, slots };
  return {
    state: 'held',
    inLine: false,
    slots,
    lineNo: row.lineNo,
    qty: row.qty,
    reservationId: row.id,
    orderId: '',
    code: row.code,
    sinceMs,
  };
}

/** A line that ended with its campaign keeps its codes, since no script frees them. */
function keepsCode({ status }: SnapshotTicket, campaignClosed: boolean): boolean {
  return status === 'waiting' || (status === 'closed' && campaignClosed);
}

/** A user with one more ticket, after all reservations. @returns undefined when there is no record */
export function withTicket(
  person: SeatedPerson | undefined,
  ticket: SnapshotTicket,
  campaignClosed: boolean,
): SeatedPerson | undefined {
  const waits = ticket.status === 'waiting';
  // Promoted: the reservation is the record. Left or closed: unless something came later.
  if (ticket.status === 'promoted' || (!waits && person && person.sinceMs >= ticket.joinedMs)) return person;
  return {
    state: waits || ticket.status === 'closed' ? 'queued' : 'left',
    inLine: waits,
    slots: person?.slots ?? [],
    lineNo: ticket.lineNo,
    qty: ticket.qty,
    reservationId: ticket.reservation,
    orderId: ticket.order ?? '',
    code: keepsCode(ticket, campaignClosed) ? ticket.code : null,
    sinceMs: ticket.joinedMs,
  };
}
