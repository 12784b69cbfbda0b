import type { EntryOf, JournalEntry, RawEntry } from '../../shared/contracts/journal.js';
import { reservedEntry } from '../../shared/image/reserved-entry.js';
import { decodeStoredRequest } from '../../shared/redis/idempotency-record.js';
import type { Acknowledged } from '../../shared/sale/acknowledged.js';
import { decodeReservation } from '../../shared/sale/reservation-record.js';
import { adaptFactOfReservation, isOfReservation } from './adapt-acknowledged.js';
import { adaptFactOfPlace, adaptQueued, isVoided, PROMOTED, responseOf } from './adapt-place.js';
import { addHolds, follow, type KnownReservation, type KnownRows, type Recovered, remember } from './known-rows.js';

export type Adapted = { entries: JournalEntry[]; rejected: { raw: RawEntry; reason: string }[] };

type Change = EntryOf<'redeemed' | 'released' | 'expired' | 'voided' | 'refunded'>;
/** Entries that are saved with the record of their reservation. */
type Recorded = Change | EntryOf<'extended' | 'reduced'>;
const NO_RESERVATION = 'Postgres has no such reservation';

/**
 * Adapts entries that Redis lost to the rows in Postgres, so that they can be written like a usual batch:
 * - an entry that has been applied already is left out, and so is a restock whose repetition has been;
 * - a change of a reservation that Postgres lacks adds the reservation first, from its `record`;
 * - a reservation whose deadline passed before a later entry is expired first, so that the later entry can use its
 *   unit;
 * - a change that is older than the last change of the row is rejected, and so is a change of a voided row;
 * - an idempotency record is rejected if Postgres lacks its reservation or place, which would be another one then, and
 *   left out if the reservation is voided: the user may have got another one under the same key;
 * - a promise that was acknowledged again is compared with its row, and the entries between are added.
 * @param raws, decoded the same entries in both forms, in the order of the journal
 */
export function adaptEntries(raws: readonly RawEntry[], decoded: readonly Recovered[], known: KnownRows): Adapted {
  const adapted: Adapted = { entries: [], rejected: [] };
  addHolds(known.heldUntil, decoded);
  for (const [i, entry] of decoded.entries()) {
    const raw = raws[i];
    if (raw === undefined) continue;
    const reason =
      entry.kind === 'acknowledged' ? adaptAcknowledged(entry, known, adapted) : adaptDated(entry, raw, known, adapted);
    if (reason !== null) adapted.rejected.push({ raw, reason });
  }
  return adapted;
}

function adaptDated(entry: JournalEntry, raw: RawEntry, known: KnownRows, adapted: Adapted): string | null {
  expireOverdue(entry.no, entry.atMs, known, adapted);
  return adaptOne(entry, raw, known, adapted);
}

/** @returns why the entry is rejected; null when it was added or has been applied already */
function adaptOne(entry: JournalEntry, raw: RawEntry, known: KnownRows, { entries }: Adapted): string | null {
  switch (entry.kind) {
    case 'reserved':
      if (known.reservations.has(entry.reservation)) entries.push(...responseOf(entry, known));
      else {
        entries.push(entry);
        remember(known, entry);
      }
      return null;
    case 'redeemed':
    case 'released':
    case 'expired':
    case 'voided':
    case 'refunded':
      return adaptChange(entry, raw, known, entries);
    case 'extended':
      return adaptExtended(entry, raw, known, entries);
    case 'reduced':
      return adaptReduced(entry, raw, known, entries);
    case 'queued':
      return adaptQueued(entry, known, entries);
    case 'left': {
      const ticket = known.tickets.get(`${entry.no}/${entry.lineNo}`);
      if (!ticket) return 'Postgres has no place in line with this number';
      if (ticket.status === 'promoted') return PROMOTED;
      ticket.status = entry.ending;
      entries.push(entry);
      return null;
    }
    case 'paid_again':
      if (!known.reservations.has(entry.reservation)) return NO_RESERVATION;
      entries.push(entry);
      return null;
    case 'answered':
      if (!hasPromiseOf(entry, known)) return 'Postgres has no such place or reservation';
      if (!isOfVoided(entry, known)) entries.push(entry);
      return null;
    case 'sealed':
    case 'moved_out':
    case 'moved_in':
    case 'line_closed':
    case 'status':
      entries.push(entry);
      return null;
    case 'restocked':
      if (!known.repeatedRestocks.has(entry.journalId)) entries.push(entry);
      return null;
    default:
      return entry satisfies never;
  }
}

/**
 * Adds what leads from the row to the fact, then the response if no added entry has it.
 * @returns why the fact is rejected; null = it is not
 */
function adaptAcknowledged(fact: Acknowledged, known: KnownRows, adapted: Adapted): string | null {
  const { no, reservation, key, answer, journalId, atMs } = fact;
  // A payment that was made in time comes before the end of this reservation.
  expireOverdue(no, atMs, known, adapted, reservation);
  const { entries } = adapted;
  const before = entries.length;
  const reason = isOfReservation(fact)
    ? adaptFactOfReservation(fact, known, entries)
    : adaptFactOfPlace(fact, known, entries);
  const hasResponse = entries.slice(before).some((entry) => 'key' in entry && entry.key === key);
  const hasPromise = known.reservations.has(reservation) || known.ticketReservations.has(reservation);
  if (hasPromise && !hasResponse) entries.push(...responseOf({ journalId, no, atMs, key, answer, reservation }, known));
  return reason;
}

/** Whether Postgres has the promise in an idempotency record. That of an operator has none. */
function hasPromiseOf({ no, answer }: EntryOf<'answered'>, known: KnownRows): boolean {
  const stored = decodeStoredRequest(answer);
  if (!stored) return true;
  const { reservationId } = stored.record;
  if (reservationId === null) return known.ticketUsers.has(`${no}/${stored.user}`);
  return known.reservations.has(reservationId) || known.ticketReservations.has(reservationId);
}

/** Whether an idempotency record names a voided reservation. */
function isOfVoided({ answer }: EntryOf<'answered'>, known: KnownRows): boolean {
  const reservation = decodeStoredRequest(answer)?.record.reservationId;
  return reservation !== undefined && reservation !== null && isVoided(reservation, known);
}

function adaptChange(entry: Change, raw: RawEntry, known: KnownRows, entries: JournalEntry[]): string | null {
  const existing = known.reservations.get(entry.reservation);
  if (existing?.status === entry.kind) return null;
  if (existing?.status === 'voided') return 'the reservation is voided';
  if (existing && existing.changedMs > entry.atMs) return `the reservation has changed since: it is ${existing.status}`;
  const row = existing ?? makeBehind(entry, raw, known, entries);
  if (!row) return NO_RESERVATION;
  follow(row, entry);
  entries.push(entry);
  return null;
}

/** Extends a reservation, unless Postgres has this deadline already, or the reservation has ended since. */
function adaptExtended(
  entry: EntryOf<'extended'>,
  raw: RawEntry,
  known: KnownRows,
  entries: JournalEntry[],
): string | null {
  const existing = known.reservations.get(entry.reservation);
  if (existing && (existing.status !== 'reserved' || existing.dueMs >= entry.dueMs)) return null;
  // The record has the new deadline.
  const row = existing ?? makeBehind(entry, raw, known, entries);
  if (!row) return NO_RESERVATION;
  follow(row, entry);
  entries.push(entry);
  return null;
}

/**
 * Gives back units, unless Postgres has this already. Only paid units are refunded, so a payment that Postgres lacks is
 * added: the process that acknowledged it may be gone. A refund of a row that has ended otherwise is rejected, because
 * money may have been paid back for it; released units are free in any case.
 */
function adaptReduced(
  entry: EntryOf<'reduced'>,
  raw: RawEntry,
  known: KnownRows,
  entries: JournalEntry[],
): string | null {
  const isPaid = entry.ending !== 'released';
  const existing = known.reservations.get(entry.reservation);
  if (existing && existing.qty <= entry.qty) return null;
  // The record has the units that are left.
  const row = existing ?? makeBehind(entry, raw, known, entries);
  if (!row) return NO_RESERVATION;
  const behind = isPaid ? reservationBehind(entry, raw) : null;
  if (behind && ['reserved', 'released', 'expired'].includes(row.status)) {
    const { journalId, no, atMs, reservation, trace } = entry;
    const paid = { kind: 'redeemed', slot: behind.slot, reacquired: row.status !== 'reserved', payment: '' } as const;
    const redeemed = { ...paid, journalId, no, atMs, reservation, trace };
    entries.push(redeemed);
    follow(row, redeemed);
  }
  if (isPaid && row.status !== 'redeemed') return `units were refunded, but the reservation is ${row.status}`;
  if (row.status !== 'redeemed' && row.status !== 'reserved') return null;
  follow(row, entry);
  entries.push(entry);
  return null;
}

/**
 * Expires every reservation of the campaign whose deadline had passed at `atMs`, unless a fact says that it held its
 * units then. @param except this one stays
 */
function expireOverdue(no: number, atMs: number, known: KnownRows, { entries }: Adapted, except = ''): void {
  for (const [reservation, row] of known.reservations) {
    if (row.no !== no || row.status !== 'reserved' || row.dueMs === 0 || reservation === except) continue;
    const dueMs = Math.max(row.dueMs, known.heldUntil.get(reservation) ?? 0);
    if (dueMs > atMs) continue;
    Object.assign(row, { status: 'expired', changedMs: dueMs });
    entries.push({
      kind: 'expired',
      journalId: '0-0',
      no,
      atMs: dueMs,
      reservation,
      reason: 'deadline',
      trace: '',
    });
  }
}

/** Makes the reservation that Postgres lacks from the record that was saved with the entry; null = none was saved. */
function makeBehind(
  entry: Recorded,
  raw: RawEntry,
  known: KnownRows,
  entries: JournalEntry[],
): KnownReservation | null {
  const reserved = reservationBehind(entry, raw);
  if (!reserved) return null;
  entries.push(reserved);
  remember(known, reserved);
  return known.reservations.get(entry.reservation) ?? null;
}

/** Decodes the changed reservation from the record that was saved with the entry; null = no record was saved. */
function reservationBehind(entry: Recorded, { fields }: RawEntry): EntryOf<'reserved'> | null {
  return fields.record ? reservedEntry(decodeReservation(fields.record), entry) : null;
}
