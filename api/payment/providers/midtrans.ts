import { createHash, timingSafeEqual } from 'node:crypto';
import { z } from 'zod';
import { LIMITS } from '../../../shared/config/limits.js';
import { ACTORS } from '../../../shared/domain/actors.js';
import { minorDigits } from '../../../shared/domain/money.js';
import type { Money, PaymentEvent } from '../../../shared/payments/payment-event.js';
import { storable } from '../../http/fields.js';
import { InvalidSignature, InvalidWebhook, moneyIn, type PaymentProvider, reservationIn } from './provider.js';

const notification = z.object({
  order_id: z.string().max(128),
  status_code: z.string().max(8),
  gross_amount: z.string().max(32),
  currency: z.string().max(8).default('IDR'),
  signature_key: z.string().max(128),
  transaction_id: z.string().max(128),
  transaction_status: z.string().max(64),
  fraud_status: z.string().optional(),
  custom_field1: z.string().optional(),
  /** Of a refund: all that was refunded until now, and each refund. */
  refund_amount: z.string().max(32).optional(),
  refunds: z.array(z.unknown()).max(1_000).optional(),
});

/** Status of a transaction → what it means for a reservation. Others have no effect. */
const KINDS: Readonly<Record<string, PaymentEvent['kind']>> = {
  capture: 'succeeded',
  settlement: 'succeeded',
  deny: 'failed',
  failure: 'failed',
  // It may end a captured payment, whose money then goes back.
  cancel: 'refunded',
  expire: 'expired',
  refund: 'refunded',
  partial_refund: 'refunded',
};

/**
 * HTTP notifications of Midtrans. The `order_id` of the transaction is that of the reservation, or `custom_field1` is
 * the reservation id. The signature covers order, status code and amount, and not the transaction status. So a success
 * also needs the status code 200, which is covered.
 */
export function midtransProvider(serverKey: string): PaymentProvider {
  return {
    name: ACTORS.midtrans,
    bodyBytes: LIMITS.payments.midtransBodyBytes,
    read(body) {
      const parsed = notification.safeParse(parse(body));
      // Without the signed fields it cannot be genuine.
      if (!parsed.success) throw new InvalidSignature('The body is not a notification of Midtrans.');
      const { order_id, status_code, gross_amount, signature_key } = parsed.data;
      const expected = createHash('sha512')
        .update(order_id + status_code + gross_amount + serverKey)
        .digest();
      const given = Buffer.from(signature_key, 'hex');
      if (given.length !== expected.length || !timingSafeEqual(given, expected))
        throw new InvalidSignature('The signature_key is not valid.');
      return eventOf(parsed.data);
    },
  };
}

function eventOf(it: z.infer<typeof notification>): PaymentEvent | null {
  const kind = KINDS[it.transaction_status];
  if (kind === undefined) return null;
  // A captured card payment that Midtrans suspects is not settled yet.
  const isSafe = it.fraud_status === undefined || it.fraud_status === 'accept';
  if (kind === 'succeeded' && (it.status_code !== '200' || !isSafe)) return null;
  // One transaction may be refunded in several parts, each with a notification.
  const id = [it.transaction_id, it.transaction_status, it.gross_amount, ...refundOf(it)].join(' ');
  // Not covered by the signature.
  if (it.transaction_id === '' || !storable.safeParse(id).success)
    throw new InvalidWebhook('`transaction_id` or `refund_amount` is not valid.');
  return {
    id,
    kind,
    reservation: reservationIn({ reservation_id: it.custom_field1, order_id: it.order_id }),
    paymentRef: it.transaction_id,
    mayBeUnpaid: it.transaction_status === 'cancel',
    partial: it.transaction_status === 'partial_refund',
    money: moneyOf(kind === 'refunded' ? (it.refund_amount ?? it.gross_amount) : it.gross_amount, it.currency),
  };
}

/** What differs between the refunds of a transaction. */
function refundOf({ refund_amount, refunds }: z.infer<typeof notification>): string[] {
  return [...(refund_amount === undefined ? [] : [refund_amount]), ...(refunds ? [String(refunds.length)] : [])];
}

/** An amount, `49000.00`, in minor units. */
function moneyOf(text: string, currency: string): Money | null {
  if (!/^\d{1,12}(?:\.\d{1,2})?$/.test(text) || !/^[A-Z]{3}$/.test(currency)) return null;
  return moneyIn(Math.round(Number(text) * 10 ** minorDigits(currency)), currency);
}

function parse(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString());
  } catch {
    return null;
  }
}
