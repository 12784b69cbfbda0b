import type Stripe from 'stripe';
import { z } from 'zod';
import { LIMITS } from '../../../shared/config/limits.js';
import { ACTORS } from '../../../shared/domain/actors.js';
import type { Money, PaymentEvent } from '../../../shared/payments/payment-event.js';
import { storable } from '../../http/fields.js';
import {
  headerOf,
  InvalidSignature,
  InvalidWebhook,
  moneyIn,
  type PaymentProvider,
  reservationIn,
} from './provider.js';

/**
 * Minor units of ISO 4217 in one of Stripe’s, where they differ. Stripe has two decimals for ISK and UGX, which have
 * none, and none for MGA: https://docs.stripe.com/currencies#special-cases and #zero-decimal.
 */
const MINOR_UNITS: Readonly<Record<string, number>> = { ISK: 0.01, UGX: 0.01, MGA: 100 };

/** As the library has it, which compares with the clock of the process otherwise. */
const TOLERANCE_SECONDS = 300;
/** An id of Stripe has at most 255 characters. */
const id = storable.min(1).max(255);
const genuine = z.object({ id, type: z.string(), data: z.object({ object: z.object({ id }) }) });

/**
 * Webhooks of Stripe. The shop puts `reservation_id` (or `order_id`) into `metadata` of the Checkout Session and of its
 * PaymentIntent, which a charge takes over. The reference of a payment is the id of its PaymentIntent in every event.
 * @param secrets of the endpoint; several while the secret is rotated
 * @param nowMs by which the age of a webhook is known
 */
export function stripeProvider(secrets: readonly string[], nowMs: () => number): PaymentProvider {
  return {
    name: ACTORS.stripe,
    bodyBytes: LIMITS.payments.bodyBytes,
    async read(body, headers) {
      const signature = headerOf(headers, 'stripe-signature');
      if (signature === '') throw new InvalidSignature('The header Stripe-Signature is missing.');
      // Loaded with the first webhook, because most installations have none.
      const { default: StripeLibrary } = await import('stripe');
      for (const secret of secrets) {
        let event: Stripe.Event;
        try {
          event = StripeLibrary.webhooks.constructEvent(body, signature, secret, TOLERANCE_SECONDS, undefined, nowMs());
        } catch (error) {
          if (error instanceof SyntaxError) throw new InvalidWebhook('The body is not JSON.');
          // For some headers the library throws other errors than those of its own.
          continue;
        }
        if (!genuine.safeParse(event).success) throw new InvalidWebhook('The body is not an event of Stripe.');
        return eventOf(event);
      }
      throw new InvalidSignature('The signature is not valid for this body, or too old.');
    },
  };
}

/** Returns the event in the common form; null = it has no effect. */
function eventOf(event: Stripe.Event): PaymentEvent | null {
  switch (event.type) {
    case 'checkout.session.completed':
      // With a delayed payment method the money comes later: `async_payment_succeeded` or `…_failed` follows.
      return event.data.object.payment_status === 'unpaid' ? null : ofSession(event.id, 'succeeded', event.data.object);
    case 'checkout.session.async_payment_succeeded':
      return ofSession(event.id, 'succeeded', event.data.object);
    // The money of a delayed payment method does not come any more.
    case 'checkout.session.async_payment_failed':
    case 'checkout.session.expired':
      return ofSession(event.id, 'expired', event.data.object);
    case 'payment_intent.succeeded': {
      const { id, metadata, amount, amount_received, currency } = event.data.object;
      const money = moneyOf(amount_received, currency);
      return of(event.id, 'succeeded', metadata, id, money, amount_received < amount);
    }
    // The customer may try another card until the hold ends.
    case 'payment_intent.payment_failed':
      return of(event.id, 'failed', event.data.object.metadata, event.data.object.id, null);
    case 'payment_intent.canceled':
      return of(event.id, 'expired', event.data.object.metadata, event.data.object.id, null);
    case 'charge.refunded': {
      const { id, metadata, payment_intent, refunded, amount_refunded, currency } = event.data.object;
      const money = moneyOf(amount_refunded, currency);
      const refund = of(event.id, 'refunded', metadata, idOf(payment_intent) || id, money, !refunded);
      // Without metadata it is found by its payment, which may be reported later.
      return { ...refund, reservation: refund.reservation ?? {} };
    }
    default:
      return null;
  }
}

function ofSession(id: string, kind: PaymentEvent['kind'], session: Stripe.Checkout.Session): PaymentEvent {
  const { metadata, client_reference_id, payment_intent, amount_total, currency } = session;
  const { reservation_id = client_reference_id, ...order } = metadata ?? {};
  // A shop may have its own number in `order_id`. It names an order of ours if there is no such reservation.
  const byId = reservationIn({ reservation_id });
  const named = byId || reservationIn(order) ? { ...reservationIn(order), ...byId } : null;
  const money = moneyOf(amount_total, currency);
  return { id, kind, reservation: named, paymentRef: idOf(payment_intent) || session.id, partial: false, money };
}

function of(
  id: string,
  kind: PaymentEvent['kind'],
  metadata: Stripe.Metadata | null,
  paymentRef: string,
  money: Money | null,
  partial = false,
): PaymentEvent {
  return { id, kind, reservation: reservationIn(metadata), paymentRef, partial, money };
}

/** An amount of Stripe in minor units of ISO 4217. What is no whole unit is too little. */
function moneyOf(amount: number | null, currency: string | null): Money | null {
  const money = moneyIn(amount, currency);
  return money && { ...money, amount: Math.floor(money.amount * (MINOR_UNITS[money.currency] ?? 1)) };
}

/**
 * The id of an object that may be expanded; "" = none.
 * @throws InvalidWebhook if it is not an id: it would be written to the journal, and Postgres could not store it
 */
function idOf(object: string | { id: string } | null | undefined): string {
  const given = typeof object === 'string' ? object : (object?.id ?? '');
  if (given !== '' && !id.safeParse(given).success)
    throw new InvalidWebhook('`payment_intent` is not an id of Stripe.');
  return given;
}
