import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { type Discount, discountOf } from '../../examples/cart-consumer/cart.js';
import type { Event } from '../../examples/read-events.js';
import { startCarts } from '../harness/example-carts.js';

/** The cart of the example with events in any order; test/integration/examples.test.ts has them from a stream. */
const { carts, another, client } = await startCarts();

const HALF: Discount = { kind: 'percent', percent: 50 };
const FIVE_EACH: Discount = { kind: 'amount', amount: 500, currency: 'EUR' };
type Kind = 'reserved' | 'redeemed' | 'reduced' | 'refunded' | 'voided' | 'released';

/** Events of one reservation. */
function reservation(order: string, discount: Discount | null, qty = 1) {
  const id = randomUUID();
  return (kind: Kind, more: Record<string, unknown> = {}): Event => ({
    id: randomUUID(),
    type: `dev.doorbuster.redemption.${kind}.v1`,
    subject: id,
    time: '2026-11-22T10:00:00.123Z',
    data: { reservation_id: id, order_id: order, qty, discount, ...more },
  });
}

/** A new cart. `priced` is what the shopper pays after these events. */
async function newCart(subtotal = 10_000) {
  const order = `order-${randomUUID()}`;
  await carts.setSubtotal(order, subtotal, 'EUR');
  const total = async () => (await carts.read(order))?.total;
  const priced = async (...events: Event[]) => {
    for (const event of events) await carts.handle(event);
    return total();
  };
  return { order, total, priced };
}

test('a redemption takes its discount off the total, once, and a refund gives it back, once', async () => {
  const { order, priced } = await newCart();
  const of = reservation(order, HALF);
  const [redeemed, refunded] = [of('redeemed'), of('refunded')];
  expect(await priced(of('reserved'))).toBe(10_000);
  expect(await priced(redeemed)).toBe(5_000);
  expect(await priced(redeemed, redeemed)).toBe(5_000);
  expect(await priced(refunded)).toBe(10_000);
  expect(await priced(refunded, redeemed)).toBe(10_000);
  expect(await carts.read(order)).toEqual({ subtotal: 10_000, discount: 0, freeShipping: false, total: 10_000 });
});

for (const kind of ['refunded', 'voided'] as const)
  test(`a redemption that comes after ${kind} takes nothing off`, async () => {
    const { order, priced } = await newCart();
    const of = reservation(order, HALF);
    expect(await priced(of(kind), of('redeemed'))).toBe(10_000);
  });

test('units that are given back take their part of an amount with them, before or after the redemption', async () => {
  const { order, priced } = await newCart();
  const [one, two] = [reservation(order, FIVE_EACH, 3), reservation(order, FIVE_EACH, 3)];
  expect(await priced(one('redeemed'))).toBe(8_500);
  expect(await priced(one('reduced', { qty: 2 }), one('reduced', { qty: 1 }))).toBe(9_500);
  expect(await priced(one('reduced', { qty: 2 }))).toBe(9_500);
  expect(await priced(two('reduced', { qty: 2 }))).toBe(9_500);
  expect(await priced(two('redeemed'))).toBe(8_500);
});

test('the discount is that of the redemption, also when the campaign changed before later events', async () => {
  const { order, priced } = await newCart();
  const of = reservation(order, FIVE_EACH, 3);
  expect(await priced(of('reduced', { qty: 2, discount: HALF }), of('redeemed', { qty: 3 }))).toBe(9_000);
  expect(await priced(of('reduced', { qty: 1, discount: HALF }))).toBe(9_500);
});

test('an order may have several reservations, and each is taken back by itself', async () => {
  const { order, priced } = await newCart();
  const [half, five] = [reservation(order, HALF), reservation(order, FIVE_EACH, 2)];
  const [shipping, none] = [reservation(order, { kind: 'free_shipping' }), reservation(order, null)];
  expect(await priced(...[five, half, shipping, none].map((of) => of('redeemed')))).toBe(4_000);
  expect((await carts.read(order))?.freeShipping).toBe(true);
  expect(await priced(half('refunded'), shipping('refunded'))).toBe(9_000);
  expect((await carts.read(order))?.freeShipping).toBe(false);
});

test('a cart may be stored after its events, and change later', async () => {
  const order = `order-${randomUUID()}`;
  await carts.handle(reservation(order, HALF)('redeemed'));
  expect((await carts.read(order))?.total).toBe(0);
  await carts.setSubtotal(order, 8_000, 'EUR');
  expect((await carts.read(order))?.total).toBe(4_000);
  await carts.setSubtotal(order, 2_000, 'EUR');
  expect((await carts.read(order))?.total).toBe(1_000);
});

test('discounts are rounded half up, never below zero, and only in the currency of the cart', () => {
  const off = (subtotal: number, ...discounts: Discount[]) =>
    discountOf(
      subtotal,
      'EUR',
      discounts.map((discount) => ({ qty: 1, discount })),
    ).discount;
  expect(off(999, { kind: 'percent', percent: 12.5 })).toBe(125);
  expect(off(5, HALF)).toBe(3);
  expect(off(1_000, HALF, HALF)).toBe(750);
  expect(off(300, FIVE_EACH)).toBe(300);
  expect(off(1_000, { ...FIVE_EACH, currency: 'IDR' })).toBe(0);
});

test('an event whose transaction fails leaves nothing, and counts when it comes again', async () => {
  const { order, priced, total } = await newCart();
  const redeemed = reservation(order, HALF)('redeemed');
  const reservations = async () =>
    (await client.query('select count(*)::int as count from cart_reservations where order_id = $1', [order])).rows[0];
  // The last statement before the commit fails.
  await client.query(`alter table carts add constraint dear check (order_id <> '${order}' or discount = 0)`);
  await expect(carts.handle(redeemed)).rejects.toThrow('dear');
  await client.query('alter table carts drop constraint dear');
  expect([await total(), await reservations()]).toEqual([10_000, { count: 0 }]);
  expect(await priced(redeemed)).toBe(5_000);
});

test('two consumers at once take off the discounts of all reservations of an order', async () => {
  const consumers = [carts, another()];
  const sell = async () => {
    const { order, total } = await newCart();
    const events = Array.from({ length: 8 }, () => reservation(order, FIVE_EACH)('redeemed'));
    await Promise.all(events.map((event, index) => consumers[index % 2]?.handle(event)));
    return total();
  };
  for (let round = 1; round <= 10; round += 1) expect([round, await sell()]).toEqual([round, 6_000]);
});

/** What the events of an order add up to, however they come. */
const history = fc.array(
  fc.record({
    qty: fc.integer({ min: 1, max: 3 }),
    reductions: fc.integer({ min: 0, max: 2 }),
    redeemed: fc.boolean(),
    end: fc.constantFrom(null, 'refunded', 'voided'),
  }),
  { minLength: 1, maxLength: 4 },
);

test('two consumers at once agree on the total, in whatever order and how often events come', async () => {
  const other = another();
  const run = async (reservations: typeof history extends fc.Arbitrary<infer All> ? All : never, seed: number) => {
    const { order, total } = await newCart();
    let expected = 10_000;
    const events: Event[] = [];
    for (const { qty, reductions, redeemed, end } of reservations) {
      const of = reservation(order, FIVE_EACH, qty);
      const left = Math.max(1, qty - reductions);
      if (redeemed) events.push(of('redeemed'));
      for (let units = qty - 1; units >= left; units -= 1) events.push(of('reduced', { qty: units }));
      if (end) events.push(of(end, { qty: left }));
      if (redeemed && !end) expected -= left * FIVE_EACH.amount;
    }
    const shuffled = fc.sample(fc.shuffledSubarray([...events, ...events], { minLength: events.length * 2 }), {
      numRuns: 2,
      seed,
    });
    const feed = async (to: typeof carts, sequence: readonly Event[]) => {
      for (const event of sequence) await to.handle(event);
    };
    await Promise.all([feed(carts, shuffled[0] ?? []), feed(other, shuffled[1] ?? [])]);
    expect(await total()).toBe(expected);
  };
  await fc.assert(fc.asyncProperty(history, fc.nat(), run), { numRuns: 40 });
});
