import type { EntryOf, JournalEntry, RawEntry } from '../../shared/contracts/journal.js';
import { ACTORS } from '../../shared/domain/actors.js';
import { changesBetween } from '../../shared/image/entries-between.js';
import { reservedEntry } from '../../shared/image/reserved-entry.js';
import { decodeStoredRequest } from '../../shared/redis/idempotency-record.js';
import type { Acknowledged } from '../../shared/sale/acknowledged.js';
import { decodeReservation, type ReservationRecord } from '../../shared/sale/reservation-record.js';
import {
  contradictionOf,
  entriesBetween,
  isOfReservation,
  type OfPlace,
  type OfReservation,
  queuedFrom,
  reservedFrom,
} from './adapt-acknowledged.js';
import { addHolds, type KnownReservation, type KnownRows, type Recovered } from './known-rows.js';

export type Adapted = { entries: JournalEntry[]; rejected: { raw: RawEntry; reason: string }[] };

/** Entries that are saved with the record of their reservation. */
type Recorded = EntryOf<'redeemed' | 'released' | 'expired' | 'voided' | 'refunded' | 'extended' | 'reduced'>;
/** A response, and the reservation or place that it promises. */
type Response = Pick<EntryOf<'answered'>, 'journalId' | 'no' | 'atMs' | 'key' | 'answer'> & { reservation: string };
const NO_RESERVATION = 'Postgres has no such reservation';
const PROMOTED = 'the place in line has been promoted';

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
 * @param known follows the entries that are added
 */
export function adaptEntries(raws: readonly RawEntry[], decoded: readonly Recovered[], known: KnownRows): Adapted {
  const adaptation = new Adaptation(known);
  const rejected: Adapted['rejected'] = [];
  addHolds(known.heldUntil, decoded);
  for (const [i, entry] of decoded.entries()) {
    const raw = raws[i];
    if (raw === undefined) continue;
    const reason =
      entry.kind === 'acknowledged' ? adaptation.acknowledged(entry) : adaptation.journaled(entry, raw.fields.record);
    if (reason !== null) rejected.push({ raw, reason });
  }
  return { entries: adaptation.entries, rejected };
}

/** Each method returns why an entry is rejected; null = it was added, or has been applied already. */
class Adaptation {
  readonly entries: JournalEntry[] = [];
  /** Campaign number → the time before which none of its deadlines passes, so that few entries look at all of them. */
  readonly #noneDueBefore = new Map<number, number>();

  constructor(readonly known: KnownRows) {}

  /** @param record of the reservation after the entry; undefined = none was saved */
  journaled(entry: JournalEntry, record: string | undefined): string | null {
    const { known } = this;
    this.#expireOverdue(entry.no, entry.atMs);
    switch (entry.kind) {
      case 'reserved':
        return known.reservations.has(entry.reservation) ? this.#addResponse(entry) : this.#add(entry);
      case 'redeemed':
      case 'released':
      case 'expired':
      case 'voided':
      case 'refunded':
      case 'extended':
      case 'reduced':
        return this.#change(entry, record ? decodeReservation(record) : null);
      case 'queued':
        return this.#queue(entry);
      case 'left': {
        const place = known.place(entry.no, entry.lineNo);
        if (!place) return 'Postgres has no place in line with this number';
        return place.status === 'promoted' ? PROMOTED : this.#add(entry);
      }
      case 'paid_again':
        return known.reservations.has(entry.reservation) ? this.#add(entry) : NO_RESERVATION;
      case 'answered':
        return this.#answer(entry);
      case 'restocked':
        return known.repeatedRestocks.has(entry.journalId) ? null : this.#add(entry);
      case 'sealed':
      case 'moved_out':
      case 'moved_in':
      case 'line_closed':
      case 'status':
        return this.#add(entry);
      default:
        return entry satisfies never;
    }
  }

  /** Adds what leads from the row to the fact, then the response if no added entry has it. */
  acknowledged(fact: Acknowledged): string | null {
    const { no, atMs, reservation, key } = fact;
    // A payment that was made in time comes before the end of this reservation.
    this.#expireOverdue(no, atMs, reservation);
    const before = this.entries.length;
    const reason = this.#compare(fact);
    const hasResponse = this.entries.slice(before).some((entry) => 'key' in entry && entry.key === key);
    if (this.known.hasPromise(reservation) && !hasResponse) this.#addResponse(fact);
    return reason;
  }

  #add(...entries: readonly JournalEntry[]): null {
    for (const entry of entries) {
      this.entries.push(entry);
      this.known.follow(entry);
      if ('dueMs' in entry && entry.dueMs > 0) this.#lowerDue(entry.no, entry.dueMs);
    }
    return null;
  }

  /**
   * Adds the response of a claim whose reservation or place Postgres has already; none if the claim has no key. A fact
   * without the key, or with another one, may have made the row first. A voided reservation has no response: a later
   * history may have given the user another one under the same key, whose response stays.
   */
  #addResponse({ journalId, no, atMs, key, answer, reservation }: Response): null {
    if (key === '' || this.known.isVoided(reservation)) return null;
    return this.#add({ kind: 'answered', journalId, no, atMs, key, answer });
  }

  /** Adds an idempotency record if Postgres has the promise in it. That of an operator has none. */
  #answer(entry: EntryOf<'answered'>): string | null {
    const { known } = this;
    const stored = decodeStoredRequest(entry.answer);
    if (!stored) return this.#add(entry);
    const { reservationId } = stored.record;
    const hasPromise =
      reservationId === null
        ? known.tickets.some(({ no, user }) => no === entry.no && user === stored.user)
        : known.hasPromise(reservationId);
    if (!hasPromise) return 'Postgres has no such place or reservation';
    return reservationId !== null && known.isVoided(reservationId) ? null : this.#add(entry);
  }

  /** Changes a reservation. One that Postgres lacks is made first, from the record. */
  #change(entry: Recorded, record: ReservationRecord | null): string | null {
    const row = this.known.reservations.get(entry.reservation);
    if (row && hasHappened(entry, row)) return null;
    const isEnd = entry.kind !== 'extended' && entry.kind !== 'reduced';
    if (isEnd && row?.status === 'voided') return 'the reservation is voided';
    if (isEnd && row && row.changedMs > entry.atMs) return `the reservation has changed since: it is ${row.status}`;
    if (!row && !record) return NO_RESERVATION;
    if (!row && record) this.#add(reservedEntry(record, entry));
    if (entry.kind === 'reduced') return this.#reduce(entry, record);
    if (record) this.#add(...reductionsBefore(entry, record, row ?? null));
    return this.#add(entry);
  }

  /**
   * Gives back units. Only paid units are refunded, so a payment that Postgres lacks is added: the process that
   * acknowledged it may be gone. A refund of a row that has ended otherwise is rejected, because money may have been
   * paid back for it; released units are free in any case.
   */
  #reduce(entry: EntryOf<'reduced'>, record: ReservationRecord | null): string | null {
    const row = this.known.reservations.get(entry.reservation) as KnownReservation;
    const isPaid = entry.ending !== 'released';
    if (isPaid && record && ['reserved', 'released', 'expired'].includes(row.status)) {
      const { journalId, no, atMs, reservation, trace } = entry;
      const { slot } = record;
      const reacquired = row.status !== 'reserved';
      this.#add({ kind: 'redeemed', journalId, no, atMs, reservation, trace, slot, reacquired, payment: '' });
    }
    if (isPaid && row.status !== 'redeemed') return `units were refunded, but the reservation is ${row.status}`;
    return row.status === 'redeemed' || row.status === 'reserved' ? this.#add(entry) : null;
  }

  /** Adds a place in line, or only its response when Postgres has the place. */
  #queue(entry: EntryOf<'queued'>): null {
    const { known } = this;
    if (known.hasPromise(entry.reservation)) return this.#addResponse(entry);
    const campaign = known.campaigns.get(entry.no);
    // Another user has taken this line number since, so the place moves to the end of the line.
    const isTaken = known.place(entry.no, entry.lineNo) !== undefined;
    const lineNo = isTaken ? (campaign?.lastLineNo ?? entry.lineNo) + 1 : entry.lineNo;
    this.#add({ ...entry, lineNo });
    return campaign?.closed ? this.#leave({ ...entry, lineNo }, 'closed', entry.trace) : null;
  }

  #leave(
    place: Pick<EntryOf<'left'>, 'journalId' | 'no' | 'atMs' | 'user' | 'lineNo'>,
    ending: 'left' | 'closed',
    trace: string,
  ): null {
    const { journalId, no, atMs, user, lineNo } = place;
    return this.#add({ kind: 'left', journalId, no, atMs, user, lineNo, ending, reason: '', trace });
  }

  /** Adds the reservation or the place, and what leads from its row to the fact. */
  #compare(fact: Acknowledged): string | null {
    return isOfReservation(fact) ? this.#compareReservation(fact) : this.#comparePlace(fact as OfPlace);
  }

  #compareReservation(fact: OfReservation): string | null {
    const existing = this.known.reservations.get(fact.reservation);
    const reason = existing ? contradictionOf(existing, fact) : null;
    if (reason !== null) return reason;
    if (!existing) this.#add(reservedFrom(fact));
    const row = this.known.reservations.get(fact.reservation) as KnownReservation;
    return this.#add(...entriesBetween({ ...row, isNew: !existing }, fact));
  }

  #comparePlace(fact: OfPlace): string | null {
    const { isWaiting, hasLeft } = fact.of;
    this.#queue(queuedFrom(fact));
    const place = this.known.tickets.find(({ reservation }) => reservation === fact.reservation);
    if (isWaiting || !place) return null;
    if (hasLeft && place.status === 'promoted') return PROMOTED;
    if (place.status !== 'waiting') return null;
    return this.#leave({ ...fact, lineNo: place.lineNo }, hasLeft ? 'left' : 'closed', '');
  }

  /**
   * Expires every reservation of the campaign whose deadline had passed at `atMs`, unless a fact says that it held its
   * units then. @param except this one stays
   */
  #expireOverdue(no: number, atMs: number, except = ''): void {
    if (atMs < (this.#noneDueBefore.get(no) ?? 0)) return;
    this.#noneDueBefore.set(no, Number.POSITIVE_INFINITY);
    for (const [reservation, row] of this.known.reservations) {
      if (row.no !== no || row.status !== 'reserved' || row.dueMs === 0) continue;
      const dueMs = Math.max(row.dueMs, this.known.heldUntil.get(reservation) ?? 0);
      if (dueMs > atMs || reservation === except) this.#lowerDue(no, dueMs);
      else
        this.#add({ kind: 'expired', journalId: '0-0', no, atMs: dueMs, reservation, reason: 'deadline', trace: '' });
    }
  }

  #lowerDue(no: number, dueMs: number): void {
    this.#noneDueBefore.set(no, Math.min(dueMs, this.#noneDueBefore.get(no) ?? 0));
  }
}

/**
 * The entries of units that were given back before an entry. They may be lost with the process that acknowledged them.
 * @param row null = it is made from the record, so it has the units that are left
 */
function reductionsBefore(
  { journalId, no, atMs, reservation, trace }: Recorded,
  record: ReservationRecord,
  row: KnownReservation | null,
): JournalEntry[] {
  const state = row?.status ?? (record.dueMs === 0 ? 'redeemed' : 'reserved');
  return changesBetween({ ...record, state }, row && { ...row, state }, {
    ...{ journalId, no, atMs, paidMs: atMs, reservation, by: ACTORS.recovery, trace, reason: '', endReason: '' },
    ...{ payments: [], isExtended: false },
  });
}

/** Whether the row has what the entry changes, or something later that includes it. */
function hasHappened(entry: Recorded, row: KnownReservation): boolean {
  if (entry.kind === 'extended') return row.status !== 'reserved' || (row.extended && row.dueMs >= entry.dueMs);
  return entry.kind === 'reduced' ? row.qty <= entry.qty : row.status === entry.kind;
}
