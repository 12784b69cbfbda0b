import { ContractError } from '../errors/faults.js';
import { packRecord, parseRecord } from '../redis/record-format.js';
import { RESERVATION } from '../redis/record-formats.js';

/** States of a packed reservation. `reacquired`: redeemed after it had ended. */
export const RECORD_STATES = [
  'reserved',
  'redeemed',
  'reacquired',
  'released',
  'expired',
  'refunded',
  'burned',
  'voided',
] as const;
export type RecordState = (typeof RECORD_STATES)[number];

/**
 * Units of a reservation that were given back while it kept others. released: before the payment. refunded: after it.
 * burned: those of the refunded ones that are not sold again.
 */
export type Reduced = { released: number; refunded: number; burned: number };

export const unreduced: Reduced = { released: 0, refunded: 0, burned: 0 };

export type ReservationRecord = {
  state: RecordState;
  user: string;
  qty: number;
  slot: number;
  dueMs: number;
  lineNo: number;
  orderId: string;
  /** Number of the coupon code that is used; null = none. */
  code: number | null;
  /** Undefined = it has all of its units. `qty` counts those that it kept. */
  reduced?: Reduced;
};

/** Reads a packed reservation. @throws ContractError */
export function decodeReservation(text: string): ReservationRecord {
  const { state, user, qty, slot, due, line_no, order_id, code, reduced } = parseRecord(RESERVATION, text);
  if (!(RECORD_STATES as readonly string[]).includes(state)) {
    throw new ContractError(`a reservation record is malformed: ${text}`);
  }
  const record = { state: state as RecordState, user, qty, slot, dueMs: due, lineNo: line_no, orderId: order_id, code };
  return reduced === '' ? record : { ...record, reduced: unpackReduced(reduced) };
}

function unpackReduced(text: string): Reduced {
  const [released, refunded, burned] = text.split(',').map(Number);
  if (released === undefined || refunded === undefined || burned === undefined)
    throw new ContractError(`a reservation record is malformed: ${text}`);
  return { released, refunded, burned };
}

/** Returns whether a reservation in this state takes units: reserved, redeemed or burned. */
export function takesUnits(state: RecordState): boolean {
  return state === 'reserved' || state === 'redeemed' || state === 'reacquired' || state === 'burned';
}

/** Returns whether the money for a reservation in this state was paid back; burned units stay taken. */
export function isRefunded(state: RecordState): boolean {
  return state === 'refunded' || state === 'burned';
}

/** Returns whether a reservation in this state was paid, or had nothing to pay. */
export function isPaid(state: RecordState): boolean {
  return state === 'redeemed' || state === 'reacquired' || isRefunded(state);
}

/** Packs a reservation, as scripts do. */
export function encodeReservation({ dueMs, lineNo, orderId, reduced, ...record }: ReservationRecord): string {
  const given = reduced ? `${reduced.released},${reduced.refunded},${reduced.burned}` : '';
  return packRecord(RESERVATION, { ...record, due: dueMs, line_no: lineNo, order_id: orderId, reduced: given });
}
