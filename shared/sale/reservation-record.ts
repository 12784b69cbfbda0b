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
};

/** Reads a packed reservation. @throws ContractError */
export function decodeReservation(text: string): ReservationRecord {
  const { state, user, qty, slot, due, line_no, order_id, code } = parseRecord(RESERVATION, text);
  if (!(RECORD_STATES as readonly string[]).includes(state)) {
    throw new ContractError(`a reservation record is malformed: ${text}`);
  }
  return { state: state as RecordState, user, qty, slot, dueMs: due, lineNo: line_no, orderId: order_id, code };
}

/** Returns whether a reservation in this state takes units: reserved, redeemed or burned. */
export function takesUnits(state: RecordState): boolean {
  return state === 'reserved' || state === 'redeemed' || state === 'reacquired' || state === 'burned';
}

/** Packs a reservation, as scripts do. */
export function encodeReservation({ dueMs, lineNo, orderId, ...record }: ReservationRecord): string {
  return packRecord(RESERVATION, { ...record, due: dueMs, line_no: lineNo, order_id: orderId });
}
