import { Webhook, WebhookVerificationError } from 'standardwebhooks';
import { z } from 'zod';
import { storable } from '../../http/fields.js';
import {
  headerOf,
  InvalidSignature,
  InvalidWebhook,
  moneyIn,
  type PaymentProvider,
  reservationIn,
} from './provider.js';

const MAX_REF = 256;
const FORM =
  'The body must be {"type": "payment.…", "data": {…}} with `order_id` or `reservation_id`, `payment_ref`, and `amount` in minor units.';

/** The event of a payment service that signs by Standard Webhooks. docs/payments.md describes it. */
const body = z.object({
  type: z.string(),
  data: z.looseObject({
    reservation_id: z.string().optional(),
    order_id: z.string().optional(),
    product_id: z.string().optional(),
    user_id: z.string().optional(),
    payment_ref: storable.max(MAX_REF).optional(),
    amount: z.int().min(0).nullish(),
    currency: z.string().nullish(),
    partial: z.boolean().optional(),
  }),
});

const KINDS = {
  'payment.succeeded': 'succeeded',
  'payment.failed': 'failed',
  'payment.expired': 'expired',
  'payment.refunded': 'refunded',
} as const;

/**
 * Webhooks of any payment service, with a Standard Webhooks signature.
 * @param secrets `whsec_<base64>`; several while the secret is rotated
 */
export function signedWebhookProvider(secrets: readonly string[]): PaymentProvider {
  const verifiers = secrets.map((secret) => new Webhook(secret));
  return {
    name: 'events',
    read(raw, headers) {
      const signed = Object.fromEntries(
        ['webhook-id', 'webhook-timestamp', 'webhook-signature'].map((name) => [name, headerOf(headers, name)]),
      );
      const verified = verifiers.some((verifier) => isGenuine(verifier, raw, signed));
      if (!verified) throw new InvalidSignature('The signature is not valid for this body, or too old.');
      const parsed = body.safeParse(parse(raw));
      if (!parsed.success) throw new InvalidWebhook(FORM);
      const { type, data } = parsed.data;
      if (!Object.hasOwn(KINDS, type)) return null;
      const paymentRef = data.payment_ref ?? '';
      // A refund is found by its payment.
      const byPayment = type === 'payment.refunded' && paymentRef !== '' ? {} : null;
      const reservation = reservationIn(data, true) ?? byPayment;
      if (reservation === null) throw new InvalidWebhook(FORM);
      return {
        id: String(signed['webhook-id']),
        kind: KINDS[type as keyof typeof KINDS],
        ...{ reservation, paymentRef },
        partial: data.partial ?? false,
        money: moneyIn(data.amount, data.currency),
      };
    },
  };
}

function isGenuine(verifier: Webhook, raw: Buffer, headers: Record<string, string>): boolean {
  try {
    verifier.verify(raw, headers);
    return true;
  } catch (error) {
    // After the signature, the library parses the body.
    if (error instanceof SyntaxError) return true;
    if (error instanceof WebhookVerificationError) return false;
    throw error;
  }
}

function parse(raw: Buffer): unknown {
  try {
    return JSON.parse(raw.toString());
  } catch {
    return null;
  }
}
