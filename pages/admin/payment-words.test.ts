import { expect, test } from '@jest/globals';
import { NEEDS_ACTION, PAYMENT_OUTCOMES } from '../../shared/payments/payment-event.js';
import { OUTCOMES, type PaymentEvent, paymentSearchOf, paymentWords } from './payment-words.js';

const event = (more: Partial<PaymentEvent>): PaymentEvent => ({
  ...{ provider: 'stripe', event_id: 'evt_1', kind: 'succeeded', outcome: 'confirmed', partial: false },
  ...{
    payment_ref: 'pi_1',
    amount: null,
    currency: null,
    received_at: '2026-11-23T01:00:00.000Z',
    refunded_at: null,
    settled_at: null,
    reservation_id: null,
  },
  ...{ product_id: null, campaign_name: null, user_id: null, order_id: null, status: null },
  ...more,
});

test('each outcome has words, and no other', () => {
  expect(Object.keys(OUTCOMES).sort()).toEqual(Object.keys(PAYMENT_OUTCOMES).sort());
});

test('an outcome that needs an action is a warning, any other is not', () => {
  const warned = Object.keys(PAYMENT_OUTCOMES).filter((outcome) => paymentWords(event({ outcome })).tone === 'warn');
  expect(warned.sort()).toEqual([...NEEDS_ACTION].sort());
});

test('a late payment has to be refunded until the provider reports that it was', () => {
  expect(paymentWords(event({ outcome: 'late' }))).toEqual({ text: 'Paid too late: refund it', tone: 'warn' });
  const returned = event({ outcome: 'late', refunded_at: '2026-11-23T02:00:00.000Z' });
  expect(paymentWords(returned)).toEqual({ text: 'Paid too late, and refunded', tone: 'off' });
  for (const outcome of NEEDS_ACTION) {
    const { tone } = paymentWords({ ...returned, outcome });
    expect([outcome, tone]).toEqual([outcome, outcome === 'refunded_before' ? 'warn' : 'off']);
  }
});

test('what an operator has settled is no warning, and says so', () => {
  const settled_at = '2026-11-23T02:00:00.000Z';
  for (const outcome of NEEDS_ACTION) expect(paymentWords(event({ outcome, settled_at })).tone).toBe('off');
  expect(paymentWords(event({ outcome: 'late', settled_at })).text).toBe('Paid too late, and settled by an operator');
});

test('a partial refund is not called a payment, and an outcome of a later version is shown as it is', () => {
  expect(paymentWords(event({ outcome: 'partial', kind: 'refunded' })).text).toBe(
    'A part was refunded: decide in the shop',
  );
  expect(paymentWords(event({ outcome: 'new_one' })).text).toBe('new_one');
});

test('a typed text is searched as a reservation, an order that was made here, or a payment', () => {
  const id = '019370a0-0000-7000-8000-000000000001';
  expect([id, ` ord_${id} `, 'pi_3N', ' '].map(paymentSearchOf)).toEqual([
    ['reservation_id', id],
    ['order_id', `ord_${id}`],
    ['payment_ref', 'pi_3N'],
    null,
  ]);
});
