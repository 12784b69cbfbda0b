import { expect, test } from '@jest/globals';
import Stripe from 'stripe';
import { InvalidSignature, InvalidWebhook } from './provider.js';
import { stripeProvider } from './stripe.js';

const secret = 'whsec_0123456789abcdef0123456789abcdef';
const payload = JSON.stringify({ id: 'evt_1', type: 'customer.created', data: { object: { id: 'cus_1' } } });
const YEAR_MS = 365 * 86_400_000;
/** Reads a webhook that was signed `agoSeconds` ago, by a clock that differs from that of the process. */
const readAt = async (nowMs: number, agoSeconds: number) => {
  const timestamp = Math.floor(nowMs / 1000) - agoSeconds;
  const header = Stripe.webhooks.generateTestHeaderString({ payload, secret, timestamp });
  return stripeProvider([secret], () => nowMs).read(Buffer.from(payload), { 'stripe-signature': header });
};

test.each([-YEAR_MS, 0, YEAR_MS])('the age of a webhook is known by the given clock (%s ms off)', async (offMs) => {
  const nowMs = Date.now() + offMs;
  expect(await readAt(nowMs, 299)).toBeNull();
  await expect(readAt(nowMs, 302)).rejects.toThrow(InvalidSignature);
});

test.each(['pi\0', 'pi\ud800', 'p'.repeat(256), { id: { of: 'pi_1' } }])(
  'a payment whose reference no database could store is refused: %j',
  async (payment_intent) => {
    const object = { id: 'cs_1', metadata: { order_id: 'o-1' }, payment_intent };
    const body = JSON.stringify({ id: 'evt_1', type: 'checkout.session.completed', data: { object } });
    const header = Stripe.webhooks.generateTestHeaderString({ payload: body, secret });
    const read = async () => stripeProvider([secret], Date.now).read(Buffer.from(body), { 'stripe-signature': header });
    await expect(read()).rejects.toThrow(InvalidWebhook);
  },
);
