import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { Carts } from '../../examples/cart-consumer/cart.js';
import { FraudCounter, type Suspicion } from '../../examples/fraud-counter/counter.js';
import { createGroup, type Event, readEvents } from '../../examples/read-events.js';
import { Metrics } from '../../shared/observability/metrics.js';
import { WebhookEndpoints } from '../../shared/postgres/webhook-endpoints.js';
import { EventStream } from '../../shared/redis/event-stream.js';
import { keys } from '../../shared/redis/keys.js';
import { Outbox } from '../../worker/publish-outbox/outbox.js';
import { sweepOutbox } from '../../worker/publish-outbox/publish.js';
import type { TestCampaign } from '../harness/campaign.js';
import { startPersistence } from '../harness/persistence.js';
import { startSale } from '../harness/sale.js';

const sale = await startSale();
const store = await startPersistence(sale);
const { redis } = sale;

/** Everything that happened until now comes to the stream. */
async function publish(): Promise<void> {
  await store.persist();
  await sweepOutbox({
    outbox: new Outbox(store.database),
    stream: new EventStream(sale.store.scripts, 100_000),
    endpoints: new WebhookEndpoints(store.database),
    wake: () => Promise.resolve(),
    metrics: new Metrics(false),
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

test('the cart applies a discount once, however often it hears of it', async () => {
  const campaign = await store.openCampaign({ discount: HALF });
  const carts = new Carts(redis, `cart-${randomUUID()}`);
  const reader = await newReader((event) => carts.handle(event));
  await redeem(campaign, 'ann', 'cart-1');
  await campaign.take('bob', { order: 'cart-2' });
  await publish();
  await reader.catchUp();
  const once = [{ order: 'cart-1', qty: 1, discount: HALF, state: 'applied' }];
  expect([await carts.discounts('cart-1'), await carts.discounts('cart-2')]).toEqual([once, []]);
  await reader.startAgain();
  await reader.catchUp();
  expect(await carts.discounts('cart-1')).toEqual(once);
});

test('the cart takes a discount back, and a late repetition does not bring it again', async () => {
  const campaign = await store.openCampaign({ discount: HALF });
  const carts = new Carts(redis, `cart-${randomUUID()}`);
  const heard: Event[] = [];
  const reader = await newReader((event) => {
    heard.push(event);
    return carts.handle(event);
  });
  const id = await redeem(campaign, 'ann', 'cart-3');
  await publish();
  await reader.catchUp();
  expect((await carts.discounts('cart-3')).length).toBe(1);
  await campaign.refund(id);
  await publish();
  await reader.catchUp();
  expect(await carts.discounts('cart-3')).toEqual([]);
  await reader.startAgain();
  await reader.catchUp();
  expect(await carts.discounts('cart-3')).toEqual([]);
  const redeemed = heard.find(({ type, subject }) => subject === id && type.includes('redeemed'));
  await carts.handle(redeemed as Event);
  expect(await carts.discounts('cart-3')).toEqual([]);
});

test('an event that a reader had when it died is handled by the next one', async () => {
  const campaign = await store.openCampaign({ discount: HALF });
  const carts = new Carts(redis, `cart-${randomUUID()}`);
  const reader = await newReader((event) => carts.handle(event));
  await redeem(campaign, 'ann', 'cart-4');
  await publish();
  const dying = async (event: Event) => {
    if (event.type.includes('redeemed') && event.data.order_id === 'cart-4') throw new Error('killed');
    await carts.handle(event);
  };
  await expect(reader.readAs('one', dying)).rejects.toThrow('killed');
  await reader.catchUp('two');
  expect((await carts.discounts('cart-4')).length).toBe(1);
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
