import type { IncomingHttpHeaders } from 'node:http';
import type { Money, PaymentEvent } from '../../../shared/payments/payment-event.js';
import type { ReservationName } from '../../../shared/payments/reservation-lookup.js';

/** A payment provider: one file of this folder. It verifies and translates; PaymentEvents decides what follows. */
export type PaymentProvider = {
  /** The last part of the path `/payments/:provider`. */
  name: string;
  /** The longest body. What can be verified only after it was parsed has to be short. */
  bodyBytes: number;
  /**
   * Verifies a webhook.
   * @param body as it was received
   * @returns null = genuine, and without an effect
   * @throws InvalidSignature if it is not genuine, or too old · InvalidWebhook if it is genuine and malformed
   */
  read(body: Buffer, headers: IncomingHttpHeaders): Promise<PaymentEvent | null> | PaymentEvent | null;
};

/** The webhook is not genuine, or too old. The message is sent to its caller. */
export class InvalidSignature extends Error {
  override readonly name = 'InvalidSignature';
}

/** The webhook is genuine, and its body is not one of the provider. The message is sent to its caller. */
export class InvalidWebhook extends Error {
  override readonly name = 'InvalidWebhook';
}

/** A header with one value; "" = missing. */
export function headerOf(headers: IncomingHttpHeaders, name: string): string {
  const value = headers[name];
  return typeof value === 'string' ? value : '';
}

/** Takes the name of a reservation from fields that a shop has set; null = they have none. */
export function reservationIn(fields: Readonly<Record<string, unknown>> | null | undefined): ReservationName | null {
  const text = (name: string) => {
    const value = fields?.[name];
    return typeof value === 'string' && STORABLE.test(value) && value.isWellFormed() ? { [name]: value } : {};
  };
  const reservation = text('reservation_id');
  if (reservation.reservation_id !== undefined) return reservation;
  const order = text('order_id');
  return order.order_id === undefined ? null : { ...order, ...text('product_id'), ...text('user_id') };
}
/** An id of at most 128 characters that Postgres can store. */
const STORABLE = /^[^\0]{1,128}$/u;

/** An amount as a provider sends it; null = it is not in minor units of a currency. */
export function moneyIn(amount: unknown, currency: unknown): Money | null {
  if (typeof amount !== 'number' || !Number.isSafeInteger(amount) || amount < 0) return null;
  if (typeof currency !== 'string' || !/^[A-Za-z]{3}$/.test(currency)) return null;
  return { amount, currency: currency.toUpperCase() };
}
