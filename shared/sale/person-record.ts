import { packRecord } from '../redis/record-format.js';
import { PERSON } from '../redis/record-formats.js';

export type PersonRecord = {
  state: 'queued' | 'held' | 'left';
  /** Whether the user is in the line. A user whose line was closed is `queued` and not in it. */
  inLine: boolean;
  slots: number[];
  lineNo: number;
  qty: number;
  reservationId: string;
  orderId: string;
  /** Number of the code that the user redeems or got; null = none. */
  code: number | null;
};

/** Packs the record of a user, as scripts do. */
export function encodePerson({ lineNo, reservationId, orderId, inLine: _, ...person }: PersonRecord): string {
  return packRecord(PERSON, { ...person, line_no: lineNo, reservation_id: reservationId, order_id: orderId });
}
