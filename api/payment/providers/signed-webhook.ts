import { createHmac, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { z } from 'zod';
import { LIMITS } from '../../../shared/config/limits.js';
import { ACTORS } from '../../../shared/domain/actors.js';
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
const TOLERANCE_SECONDS = 300;
/** Signatures that a header may have, one for each secret while it is rotated. */
const MAX_SIGNATURES = 8;
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
 * @param nowMs by which the age of a webhook is known
 */
export function signedWebhookProvider(secrets: readonly string[], nowMs: () => number): PaymentProvider {
  const keys = secrets.map((secret) => Buffer.from(secret.replace(/^whsec_/, ''), 'base64'));
  return {
    name: ACTORS.events,
    bodyBytes: LIMITS.payments.bodyBytes,
    read(raw, headers) {
      const id = headerOf(headers, 'webhook-id');
      if (!isRecent(headers, nowMs()) || !isGenuine(raw, id, headers, keys))
        throw new InvalidSignature('The signature is not valid for this body, or too old.');
      const json = parse(raw);
      const { success: hasType, data: { type } = { type: '' } } = z.object({ type: z.string() }).safeParse(json);
      if (hasType && !Object.hasOwn(KINDS, type)) return null;
      const parsed = body.safeParse(json);
      if (!parsed.success) throw new InvalidWebhook(FORM);
      const { data } = parsed.data;
      // A payment without a reference is one of its own.
      const paymentRef = data.payment_ref ?? (type === 'payment.succeeded' ? id : '');
      // A refund is found by its payment.
      const byPayment = type === 'payment.refunded' && paymentRef !== '' ? {} : null;
      const reservation = reservationIn(data) ?? byPayment;
      if (reservation === null) throw new InvalidWebhook(FORM);
      return {
        id,
        kind: KINDS[type as keyof typeof KINDS],
        ...{ reservation, paymentRef },
        partial: data.partial ?? false,
        money: moneyIn(data.amount, data.currency),
      };
    },
  };
}

/**
 * Verifies a webhook by Standard Webhooks, with the HMAC of Node: that of its library is written in JavaScript, and
 * anyone can send large bodies.
 */
function isGenuine(raw: Buffer, id: string, headers: IncomingHttpHeaders, keys: readonly Buffer[]): boolean {
  const [timestamp, signatures] = [headerOf(headers, 'webhook-timestamp'), headerOf(headers, 'webhook-signature')];
  if (id === '' || id.length > MAX_REF || !storable.safeParse(id).success) return false;
  const given = signatures
    .split(' ')
    .filter((one) => one.startsWith('v1,'))
    .slice(0, MAX_SIGNATURES)
    .map((one) => Buffer.from(one.slice(3), 'base64'));
  return keys.some((key) => {
    const expected = createHmac('sha256', key).update(`${id}.${timestamp}.`).update(raw).digest();
    return given.some((one) => one.length === expected.length && timingSafeEqual(one, expected));
  });
}

function isRecent(headers: IncomingHttpHeaders, nowMs: number): boolean {
  const timestamp = headerOf(headers, 'webhook-timestamp');
  return /^\d{1,12}$/.test(timestamp) && Math.abs(nowMs / 1000 - Number(timestamp)) <= TOLERANCE_SECONDS;
}

function parse(raw: Buffer): unknown {
  try {
    return JSON.parse(raw.toString());
  } catch {
    return null;
  }
}
