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

test.each([
  ['usd', 500, 500],
  ['jpy', 500, 500],
  ['kwd', 5000, 5000],
  // Two decimals at Stripe, and none by ISO 4217.
  ['isk', 500, 5],
  ['ugx', 500, 5],
  // None at Stripe, and two by ISO 4217.
  ['mga', 5, 500],
])('an amount of Stripe is taken in minor units of ISO 4217: %s', async (currency, amount, minorUnits) => {
  const objects = {
    'checkout.session.completed': { amount_total: amount },
    'payment_intent.succeeded': { amount, amount_received: amount },
    'charge.refunded': { amount_refunded: amount, refunded: true },
  };
  for (const [type, amounts] of Object.entries(objects)) {
    const object = { id: 'id_1', metadata: { order_id: 'o-1' }, currency, ...amounts };
    const body = JSON.stringify({ id: 'evt_1', type, data: { object } });
    const header = Stripe.webhooks.generateTestHeaderString({ payload: body, secret });
    const event = await stripeProvider([secret], Date.now).read(Buffer.from(body), { 'stripe-signature': header });
    expect([type, event?.money]).toEqual([type, { amount: minorUnits, currency: currency.toUpperCase() }]);
  }
});
