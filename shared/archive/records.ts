import type { SnapshotReservation, SnapshotTicket } from '../postgres/snapshot.js';
import type { PersonRecord } from '../sale/person-record.js';
import { type RecordState, type ReservationRecord, takesUnits } from '../sale/reservation-record.js';

/** `sinceMs`: time of the reservation or ticket from which the record was made. */
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
    ...(row.reduced ? { reduced: row.reduced } : {}),
  };
}

/**
 * Adds a reservation to the record of its user. The record describes the latest reservation; its slots are those of all
 * active reservations.
 */
export function withReservation(person: SeatedPerson | undefined, row: SnapshotReservation): SeatedPerson {
  const slots = [...(person?.slots ?? []), ...(takesUnits(recordOf(row).state) ? [row.slot] : [])];
  // A reservation that was reacquired counts as the latest, even among several in the same millisecond.
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

/**
 * Whether the ticket still occupies its code. Tickets of a line that ended with its campaign do, because no script
 * frees their codes.
 */
function keepsCode({ status }: SnapshotTicket, campaignClosed: boolean): boolean {
  return status === 'waiting' || (status === 'closed' && campaignClosed);
}

/**
 * Adds a ticket to the record of its user, after all reservations were added.
 * @returns undefined when the user has no record
 */
export function withTicket(
  person: SeatedPerson | undefined,
  ticket: SnapshotTicket,
  campaignClosed: boolean,
): SeatedPerson | undefined {
  const waits = ticket.status === 'waiting';
  // A promoted ticket is described by its reservation. A ticket that was left or closed counts only if nothing came
  // later.
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
