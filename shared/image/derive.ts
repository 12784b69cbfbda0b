import { isDerivedFingerprint } from '../domain/device.js';
import type { SnapshotReservation, SnapshotTicket, UserRows } from '../postgres/snapshot.js';
import type { KnownCounters } from '../sale/campaigns.js';
import type { PersonRecord } from '../sale/person-record.js';
import { type ReservationRecord, takesUnits } from '../sale/reservation-record.js';
import { COUNTED } from './compare.js';
import { counted, factOf } from './facts.js';

/** What Redis has of some users of a campaign. */
export type DerivedRecords = {
  people: (readonly [user: string, PersonRecord])[];
  reservations: Map<string, ReservationRecord>;
  /** References of payments, oldest first. An empty list marks an extension. */
  payments: (readonly [reservation: string, readonly string[]])[];
  /** The devices that may use a new idempotency key for the same user's place (lua/reserve.lua). */
  holders: { user: string; lineNo: number; device: string }[];
  /** Used codes. */
  codes: number[];
  answers: { user: string; key: string | null; answer: string | null; madeMs: number }[];
  /** What these users add to the counters. `lastLineNo`: their highest one. */
  counters: KnownCounters;
};

/** `sinceMs`: time of the reservation or ticket from which the record was made. */
type SeatedPerson = PersonRecord & { sinceMs: number };

/**
 * Derives the records of users from all of their rows in one campaign, for all that fills Redis: a refill, a move, and
 * the recall of one user.
 */
export function deriveUsers(users: readonly UserRows[], campaign: { closed: boolean }): DerivedRecords {
  const counters = { held: 0, redeemed: 0, burned: 0, waiting: 0, lastLineNo: 0 };
  const derived: DerivedRecords = {
    ...{ people: [], reservations: new Map(), payments: [], holders: [], codes: [], answers: [], counters },
  };
  for (const user of users) addUser(derived, user, campaign.closed);
  return derived;
}

function addUser(derived: DerivedRecords, { user, reservations, tickets }: UserRows, closed: boolean): void {
  const { counters, codes } = derived;
  let person: SeatedPerson | undefined;
  for (const row of reservations) {
    const record = recordOf(row);
    derived.reservations.set(row.id, record);
    if (row.payments.length > 0 || (row.extended && row.status === 'reserved'))
      derived.payments.push([row.id, row.payments]);
    if (record.code && takesUnits(record.state)) codes.push(record.code);
    derived.answers.push({ ...row, madeMs: row.reservedMs });
    count(counters, record);
    person = withReservation(person, row);
  }
  for (const ticket of tickets) {
    const { lineNo, device } = ticket;
    counters.lastLineNo = Math.max(counters.lastLineNo, lineNo);
    if (ticket.status === 'waiting') {
      if (!closed) counters.waiting += 1;
      if (device !== null && !isDerivedFingerprint(device)) derived.holders.push({ user, lineNo, device });
    }
    derived.answers.push({ ...ticket, madeMs: ticket.joinedMs });
    person = withTicket(person, ticket, closed);
  }
  if (!person) return;
  derived.people.push([user, person]);
  // The code that a user waits with, or waited with until the campaign closed.
  if (person.state === 'queued' && person.code) codes.push(person.code);
}

function count(counters: KnownCounters, record: ReservationRecord): void {
  const units = counted(factOf(record));
  for (const name of COUNTED) counters[name] += units[name];
  counters.lastLineNo = Math.max(counters.lastLineNo, record.lineNo);
}

/** The record that Redis has of a row. */
export function recordOf(row: SnapshotReservation): ReservationRecord {
  const { user, qty, slot, dueMs, lineNo, order, code, reduced } = row;
  const state = row.burned ? 'burned' : row.status === 'redeemed' && row.reacquired ? 'reacquired' : row.status;
  return { state, user, qty, slot, dueMs, lineNo, orderId: order, code, ...(reduced ? { reduced } : {}) };
}

/**
 * Adds a reservation to the record of its user. The record describes the latest reservation; its slots are those of all
 * active reservations.
 */
function withReservation(person: SeatedPerson | undefined, row: SnapshotReservation): SeatedPerson {
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
function withTicket(
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
