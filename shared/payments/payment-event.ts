import type { PaymentKind } from '../postgres/payment-events.js';
import type { ReservationName } from './reservation-lookup.js';

/** An amount in minor units of an ISO 4217 currency, in capital letters. */
export type Money = { amount: number; currency: string };

/** An event of a payment provider in the form that all providers share. */
export type PaymentEvent = {
  /** The same whenever the provider sends the event again. */
  id: string;
  kind: PaymentKind;
  /**
   * null = the provider names none, so the payment may be for something else. Empty: a refund that is found by its
   * payment
   */
  reservation: ReservationName | null;
  /** Identifies the payment, and is the same in its refund; "" = none. */
  paymentRef: string;
  /** Set for a refund that may also end an attempt that was never paid. */
  mayBeUnpaid?: boolean;
  /** Whether only a part of the amount was paid or refunded. */
  partial: boolean;
  /** What was paid or refunded; null = the provider does not say. */
  money: Money | null;
};

/** What was done about an event. docs/payments.md describes each. */
export const PAYMENT_OUTCOMES = {
  confirmed: 'the reservation is redeemed',
  reacquired: 'the reservation had ended, and a free unit was reserved and redeemed',
  mismatch: 'the reservation is redeemed, and the amount or the currency is not that of the campaign: compare them',
  duplicate: 'the reservation was paid before by another payment: refund one of them',
  repeated: 'the payment was counted before',
  late: 'the reservation had ended: refund the payment',
  released: 'the reservation was released',
  refunded: 'the reservation is refunded',
  refunded_before: 'the payment was refunded already; an unpaid reservation was released',
  unpaid: 'the payment that was refunded is not known yet, or came too late',
  still_paid: 'another payment of the reservation is left',
  partial: 'a part of the amount changes nothing: the shop decides',
  recorded: 'a failed attempt changes nothing: the user may try again',
  settled: 'the reservation is paid, refunded or voided, so that there is nothing to release',
  unknown: 'no such reservation exists, or several users have the order. It is looked for again for a week',
  unrelated: 'the event names no reservation',
} as const;
export type PaymentOutcome = keyof typeof PAYMENT_OUTCOMES;

/** Outcomes after which a person has to act: return money, or find out what was paid. The most urgent one is first. */
export const NEEDS_ACTION = [
  'late',
  'duplicate',
  'refunded_before',
  'unknown',
  'mismatch',
  'partial',
] as const satisfies readonly PaymentOutcome[];
