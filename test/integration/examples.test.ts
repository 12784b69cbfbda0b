import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { FraudCounter, type Suspicion } from '../../examples/fraud-counter/counter.js';
import { createGroup, type Event, readEvents } from '../../examples/read-events.js';
import { Metrics } from '../../shared/observability/metrics.js';
import { WebhookEndpoints } from '../../shared/postgres/webhook-endpoints.js';
import { EventStream } from '../../shared/redis/event-stream.js';
import { keys } from '../../shared/redis/keys.js';
import { Outbox } from '../../worker/publish-outbox/outbox.js';
import { sweepOutbox } from '../../worker/publish-outbox/publish.js';
import type { TestCampaign } from '../harness/campaign.js';
import { startCarts } from '../harness/example-carts.js';
import { startPersistence } from '../harness/persistence.js';
import { startSale } from '../harness/sale.js';

const sale = await startSale();
const store = await startPersistence(sale);
const { redis } = sale;
const { carts } = await startCarts();

/** Everything that happened until now comes to the stream. */
async function publish(): Promise<void> {
  await store.persist();
  await sweepOutbox({
    outbox: new Outbox(store.database),
    stream: new EventStream(sale.store.scripts, 100_000),
    endpoints: new WebhookEndpoints(store.database),
    wake: () => Promise.resolve(),
    metrics: new Metrics(false),
    log: store.log,
    source: '/tests',
    limits: { publishBatch: 100 },
  });
}

/** A reader of its own that begins at the oldest event. */
async function newReader(handle: (event: Event) => Promise<unknown>) {
  const reader = { stream: keys.events, group: `group-${randomUUID()}`, name: 'one' };
  await createGroup(redis, reader);
  const handled = async (event: Event) => void (await handle(event));
  return {
    /** Reads until nothing is left, also what another one left behind. */
    catchUp: async (name = 'one') => {
      while ((await readEvents(redis, { ...reader, name }, handled, { blockMs: 1, claimAfterMs: 0 })) > 0);
    },
    readAs: (name: string, how: (event: Event) => Promise<void>) =>
      readEvents(redis, { ...reader, name }, how, { blockMs: 1, claimAfterMs: 0 }),
    /** Everything comes again, as after a replay. */
    startAgain: () => redis.xgroup('SETID', reader.stream, reader.group, '0'),
  };
}

async function redeem(
  campaign: TestCampaign,
  user: string,
  order: string,
  device = `phone-of-${user}`,
): Promise<string> {
  const id = await campaign.take(user, { order, device });
  await campaign.confirm(id);
  return id;
}

const HALF = { kind: 'percent', percent: 50 } as const;

/** A cart of 100.00 EUR, and what it costs now. */
async function newCart() {
  const order = `cart-${randomUUID()}`;
  await carts.setSubtotal(order, 10_000, 'EUR');
  return { order, total: async () => (await carts.read(order))?.total };
}

test('the cart applies a discount once, however often it hears of it', async () => {
  const campaign = await store.openCampaign({ discount: HALF });
  const reader = await newReader((event) => carts.handle(event));
  const [paid, unpaid] = [await newCart(), await newCart()];
  await redeem(campaign, 'ann', paid.order);
  await campaign.take('bob', { order: unpaid.order });
  await publish();
  await reader.catchUp();
  expect([await paid.total(), await unpaid.total()]).toEqual([5_000, 10_000]);
  await reader.startAgain();
  await reader.catchUp();
  expect([await paid.total(), await unpaid.total()]).toEqual([5_000, 10_000]);
});

test('the cart takes a discount back, by units and whole, and a replay does not bring it again', async () => {
  const campaign = await store.openCampaign({
    discount: { kind: 'amount', amount: 500, currency: 'EUR' },
    perUserLimit: 3,
  });
  const reader = await newReader((event) => carts.handle(event));
  const { order, total } = await newCart();
  const id = await campaign.take('ann', { order, qty: 3 });
  await campaign.confirm(id);
  const totals: unknown[] = [];
  const hear = async () => {
    await publish();
    await reader.catchUp();
    totals.push(await total());
  };
  await hear();
  await campaign.refund(id, '', 1);
  await hear();
  await campaign.refund(id);
  await hear();
  await reader.startAgain();
  await hear();
  expect(totals).toEqual([8_500, 9_500, 10_000, 10_000]);
});

test('an event that a reader had when it died is handled by the next one', async () => {
  const campaign = await store.openCampaign({ discount: HALF });
  const reader = await newReader((event) => carts.handle(event));
  const [before, after] = [await newCart(), await newCart()];
  await redeem(campaign, 'ann', before.order);
  await redeem(campaign, 'bob', after.order);
  await publish();
  const isOf = (event: Event, order: string) => event.type.includes('redeemed') && event.data.order_id === order;
  const dying = async (event: Event) => {
    if (isOf(event, before.order)) throw new Error('killed before');
    await carts.handle(event);
  };
  await expect(reader.readAs('one', dying)).rejects.toThrow('killed before');
  expect(await before.total()).toBe(10_000);
  // Its transaction is committed, and the event not acknowledged.
  const dyingLater = async (event: Event) => {
    await carts.handle(event);
    if (isOf(event, after.order)) throw new Error('killed after');
  };
  await expect(reader.readAs('two', dyingLater)).rejects.toThrow('killed after');
  expect(await after.total()).toBe(5_000);
  const repeated: Event[] = [];
  const third = async (event: Event) => {
    repeated.push(event);
    await carts.handle(event);
  };
  while ((await reader.readAs('three', third)) > 0);
  expect(repeated.some((event) => isOf(event, after.order))).toBe(true);
  expect([await before.total(), await after.total()]).toEqual([5_000, 5_000]);
});

test('the fraud counter counts each redemption once, by device and by user, within its window', async () => {
  const campaign = await store.openCampaign({ perUserLimit: 5 });
  const rules = [
    { by: 'device_fp', limit: 2, windowMs: 60_000 },
    { by: 'user_id', limit: 2, windowMs: 60_000 },
  ] as const;
  const counter = new FraudCounter(redis, `fraud-${randomUUID()}`, rules);
  const device = `farm-${randomUUID()}`;
  let suspicions: Suspicion[] = [];
  const reader = await newReader(async (event) => {
    if (event.data.product_id === campaign.product) suspicions.push(...(await counter.handle(event)));
  });
  await redeem(campaign, 'ann', 'o1', device);
  await redeem(campaign, 'bob', 'o2', device);
  await publish();
  await reader.catchUp();
  await reader.startAgain();
  await reader.catchUp();
  expect(suspicions).toEqual([]);
  await redeem(campaign, 'cid', 'o3', device);
  await publish();
  await reader.catchUp();
  expect(suspicions).toEqual([{ rule: rules[0], who: device, count: 3 }]);
  suspicions = [];
  for (const order of ['o4', 'o5', 'o6']) await redeem(campaign, 'dan', order, `phone-${order}`);
  await publish();
  await reader.catchUp();
  expect(suspicions).toEqual([{ rule: rules[1], who: 'dan', count: 3 }]);
});

test('the fraud counter counts an event that comes after later ones', async () => {
  const counter = new FraudCounter(redis, `fraud-${randomUUID()}`, [{ by: 'user_id', limit: 2, windowMs: 60_000 }]);
  const at = (seconds: number): Event => ({
    id: `event-${seconds}`,
    type: 'dev.doorbuster.redemption.redeemed.v1',
    subject: `reservation-${seconds}`,
    time: new Date(1_800_000_000_000 + seconds * 1_000).toISOString(),
    data: { user_id: 'ann' },
  });
  for (const seconds of [50, 30, 95]) expect(await counter.handle(at(seconds))).toEqual([]);
  expect((await counter.handle(at(40))).map(({ count }) => count)).toEqual([3]);
  expect(await counter.handle(at(200))).toEqual([]);
});

test('the fraud counter forgets what is older than its window', async () => {
  const counter = new FraudCounter(redis, `fraud-${randomUUID()}`, [{ by: 'user_id', limit: 1, windowMs: 60_000 }]);
  const at = (seconds: number, id: string): Event => ({
    id,
    type: 'dev.doorbuster.redemption.redeemed.v1',
    subject: id,
    time: new Date(1_800_000_000_000 + seconds * 1_000).toISOString(),
    data: { user_id: 'ann' },
  });
  expect(await counter.handle(at(0, 'a'))).toEqual([]);
  expect(await counter.handle(at(60, 'b'))).toEqual([]);
  expect((await counter.handle(at(61, 'c'))).map(({ count }) => count)).toEqual([2]);
  expect(await counter.handle(at(200, 'd'))).toEqual([]);
});
