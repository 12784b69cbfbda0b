import { createHash } from 'node:crypto';
import type { RawEntry } from '../contracts/journal.js';
import { campaignOfNumber } from '../domain/buckets.js';
import { ContractError } from '../errors/faults.js';
import { whole } from '../redis/journal-entries.js';
import { parseRecord } from '../redis/record-format.js';
import { PERSON } from '../redis/record-formats.js';
import { decodeReservation, type ReservationRecord } from './reservation-record.js';
import type { ReadPromiseOutcome } from './scripts/promise.js';

/** A promise as lua/read_promise.lua found it. */
export type FoundPromise = Extract<ReadPromiseOutcome, { kind: 'reservation' | 'place' }>;
/** The idempotency key of a response and its whole record; both "" = the response has no key. */
export type KeyedResponse = { user: string; key: string; answer: string };

/**
 * A promise that a response acknowledged again: what Redis had of it after the entry `journalId`. It is kept and
 * recovered like a journal entry, but the journal never has it.
 */
export type Acknowledged = {
  kind: 'acknowledged';
  journalId: string;
  no: number;
  atMs: number;
  reservation: string;
  user: string;
  /** 0 = a reservation that was made without waiting */
  lineNo: number;
  stacking: string | null;
  key: string;
  answer: string;
  /** `isExtended`: the reservation is unpaid, and its deadline is the extended one. */
  of:
    | { kind: 'reservation'; record: ReservationRecord; payments: readonly string[]; isExtended: boolean }
    /** `hasLeft`: the user left. Neither waiting nor left: the line was closed. */
    | { kind: 'place'; qty: number; order: string; code: number | null; isWaiting: boolean; hasLeft: boolean };
};

/**
 * Returns the name of a fact: a later one with this name replaces it. A response with a key has a fact of its own, so
 * that its key is not lost.
 */
export function factName({ reservation }: FoundPromise, { key }: KeyedResponse): string {
  // The name becomes part of an id, which outlives the erasure of a user.
  return key === ''
    ? reservation
    : `${reservation} ${createHash('sha256').update(key).digest('base64url').slice(0, 16)}`;
}

/** Makes the entry that a process keeps. @param journalId the last id of the journal, and the name of the fact */
export function acknowledgedEntry(
  journalId: string,
  found: FoundPromise,
  { user: caller, key, answer }: KeyedResponse,
): RawEntry {
  const { kind: of, no, atMs, reservation, record, stacking } = found;
  // An erasure finds the fact by its user.
  const user = of === 'reservation' ? decodeReservation(record).user : caller;
  const more = found.kind === 'place' ? { waiting: found.isWaiting ? '1' : '0' } : paymentsOf(found.payments);
  const fields = { kind: 'acknowledged', of, no, at: String(atMs), reservation, user, record, stacking, key, answer };
  return { journalId, fields: { ...fields, ...more } };
}

/** An empty list marks a reservation whose deadline was extended. */
const paymentsOf = (payments: string) => ({ payments: payments || '[]', extended: payments === '[]' ? '1' : '0' });

/** Decodes a kept fact. @throws ContractError if it is malformed */
export function decodeAcknowledged({ journalId, fields }: RawEntry): Acknowledged {
  const { of, reservation = '', user = '', record = '', stacking = '', key = '', answer = '' } = fields;
  const no = campaignOfNumber(whole(fields, 'no'));
  const begin = { kind: 'acknowledged', journalId, no, atMs: whole(fields, 'at'), reservation, key, answer } as const;
  if (of === 'reservation') {
    const decoded = decodeReservation(record);
    const payments = JSON.parse(fields.payments ?? '[]') as string[];
    const isExtended = decoded.state === 'reserved' && fields.extended === '1';
    const own = { user: decoded.user, lineNo: decoded.lineNo, stacking: stacking || null };
    return { ...begin, ...own, of: { kind: of, record: decoded, payments, isExtended } };
  }
  if (of !== 'place') throw new ContractError(`the acknowledged promise ${journalId} is of the unknown kind ${of}`);
  const { state, qty, line_no, order_id, code } = parseRecord(PERSON, record);
  const isWaiting = fields.waiting === '1';
  return {
    ...begin,
    user,
    lineNo: line_no,
    stacking: stacking || null,
    of: { kind: of, qty, order: order_id, code, isWaiting, hasLeft: state === 'left' },
  };
}
