import type { Stock } from '../domain/campaign.js';
import type { RecordState, ReservationRecord } from '../sale/reservation-record.js';
import { unreduced } from '../sale/reservation-record.js';

/** `burned`: refunded, and its units are not sold again. */
export type ReservationState = Exclude<RecordState, 'reacquired'>;

/** Units of a reservation: those that it has, and those that were given back in parts. */
export type Units = { qty: number; released: number; refunded: number; burned: number };

/** `code`: number of the coupon code; null = none. `dueMs`: deadline; 0 = nothing to pay, null = not known. */
export type Reservation = Units & {
  state: ReservationState;
  user: string;
  order: string;
  code: number | null;
  dueMs: number | null;
};

/** A place in line. `reservation`: null = not known. `qty`: undefined = not known. */
export type Place = { lineNo: number; reservation: string | null; qty?: number };

/** The status of a campaign, and its counters or those of one of its buckets. */
export type Head = Omit<Stock, 'free'>;

/** Units of reservations by the counter that counts them. */
export type Counted = Pick<Head, 'held' | 'redeemed' | 'burned'>;

export function factOf(record: ReservationRecord): Reservation {
  const { state, user, qty, orderId: order, code, dueMs, reduced = unreduced } = record;
  return { state: state === 'reacquired' ? 'redeemed' : state, user, order, code, dueMs, qty, ...reduced };
}

/** The units that a reservation takes. A voided one has burned none. */
export function counted(reservation: Reservation | null): Counted {
  const units = { held: 0, redeemed: 0, burned: 0 };
  if (!reservation || reservation.state === 'voided') return units;
  const { state, qty, burned } = reservation;
  if (state === 'reserved') units.held = qty;
  if (state === 'redeemed') units.redeemed = qty;
  units.burned = burned + (state === 'burned' ? qty : 0);
  return units;
}

/** The units that a reservation takes in all. */
export function taken(reservation: Reservation | null): number {
  const { held, redeemed, burned } = counted(reservation);
  return held + redeemed + burned;
}
