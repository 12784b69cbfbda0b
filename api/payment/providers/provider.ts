import type { IncomingHttpHeaders } from 'node:http';
import type { PaymentKind } from '../../../shared/postgres/payment-events.js';
import type { ReservationName } from '../reservation-lookup.js';

/** A payment event in the form that all providers share. */
export type PaymentEvent = {
  /** The same whenever the provider sends the event again. */
  id: string;
  kind: PaymentKind;
  /** null = the provider names none, so the payment is not for a reservation */
  reservation: ReservationName | null;
  /** Identifies the payment, and is the same in its refund; "" = none. */
  paymentRef: string;
  /** Whether only a part of the amount was paid or refunded. */
  partial: boolean;
};

/** A payment provider: one file of this folder. It verifies and translates; PaymentEvents decides what follows. */
export type PaymentProvider = {
  /** The last part of the path `/payments/:provider`. */
  name: string;
  /**
   * Verifies a webhook.
   * @param body as it was received
   * @returns null = genuine, and without an effect
   * @throws InvalidWebhook
   */
  read(body: Buffer, headers: IncomingHttpHeaders): Promise<PaymentEvent | null> | PaymentEvent | null;
};

/** The webhook is not genuine, too old or malformed. The message is sent to its caller. */
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
    return typeof value === 'string' && value !== '' && value.length <= MAX_NAME ? value : undefined;
  };
  const [reservation_id, order_id, product_id] = [text('reservation_id'), text('order_id'), text('product_id')];
  if (reservation_id !== undefined) return { reservation_id };
  return order_id === undefined ? null : { order_id, product_id };
}
const MAX_NAME = 128;
