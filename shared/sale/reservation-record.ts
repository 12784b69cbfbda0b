import { ContractError } from '../errors/faults.js';

/** States of a packed reservation in Redis; see lua/includes/records.lua. */
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

/** Decodes `state|user|qty|slot|due_ms|line_no|order_id|code`. @throws ContractError */
export function decodeReservation(text: string): ReservationRecord {
  const fields = text.split('|');
  const [state, user, qty, slot, due, lineNo, orderId, code] = fields;
  if (fields.length !== 8 || !(RECORD_STATES as readonly string[]).includes(String(state))) {
    throw new ContractError(`a reservation record is malformed: ${text}`);
  }
  return {
    state: state as RecordState,
    user: String(user),
    qty: Number(qty),
    slot: Number(slot),
    dueMs: Number(due),
    lineNo: Number(lineNo),
    orderId: String(orderId),
    code: code ? Number(code) : null,
  };
}

/** Whether a unit is taken in this state, as a reservation, a redemption or burned. */
export function takesUnits(state: RecordState): boolean {
  return state === 'reserved' || state === 'redeemed' || state === 'reacquired' || state === 'burned';
}

/** The form that lua/includes/records.lua reads. */
export function encodeReservation(record: ReservationRecord): string {
  const { state, user, qty, slot, dueMs, lineNo, orderId, code } = record;
  return [state, user, qty, slot, dueMs, lineNo, orderId, code ?? ''].join('|');
}
