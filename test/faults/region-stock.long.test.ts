import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import type { ProductId } from '../../shared/domain/ids.js';
import { regionOfUser } from '../../shared/domain/regions.js';
import { keys } from '../../shared/redis/keys.js';
import { expectProblem } from '../harness/checks.js';
import { PaymentService, Shopper, send, sendOnce } from '../harness/clients.js';
import type { Crowd } from '../harness/crowd.js';
import { HOUR_MS, MovedClock } from '../harness/moved-clock.js';
import {
  REGION_SECRET,
  type RegionStage,
  readinessOf,
  runRegions,
  startTwoRegions,
  untilLinked,
} from '../harness/region-stage.js';
import { until } from '../harness/until.js';
import { ledgerCommand } from '../harness/verdict.js';

const clock = new MovedClock();
const { us, eu, toUs, toEu } = await startTwoRegions(clock.env);
const TOTAL = 100;

const BOTH = ['us', 'eu'];
/** A new user of a region. */
function userOf(region: string): string {
  for (;;) {
    const user = `user-${randomUUID()}`;
    if (regionOfUser(user, BOTH) === region) return user;
  }
}

/** One product in both regions, each with its share. */
async function openShares(ofUs: number, terms: Record<string, unknown> = {}, total = TOTAL): Promise<string> {
  const product = `split-${randomUUID()}`;
  const open = (at: RegionStage, units: number) =>
    at.operator.call('POST', '/admin/campaigns', {
      product_id: product,
      total_limit: units,
      hold_seconds: 600,
      require_attestation: false,
      regions: BOTH,
      ...terms,
    });
  const opened = await Promise.all([open(us, ofUs), open(eu, total - ofUs)]);
  expect(opened.map(({ status }) => status)).toEqual([201, 201]);
  return product;
}

const give = (from: RegionStage, product: string, to: string, units: number, id = randomUUID()) =>
  from.operator.call('POST', `/admin/campaigns/${product}/transfers`, { to, units, transfer_id: id });
const transfersOf = async (at: RegionStage, product: string) =>
  (await at.operator.call('GET', `/admin/campaigns/${product}/transfers`)).data as Record<string, any>[];
const stocks = (product: string) => Promise.all([us.operator.stats(product), eu.operator.stats(product)]);
const totals = async (product: string) => (await stocks(product)).map(({ total }) => total as number);

async function untilStatus(at: RegionStage, product: string, status: string): Promise<void> {
  await until(`the transfer is ${status}`, async () => (await transfersOf(at, product))[0]?.status === status);
}

async function cut(): Promise<void> {
  await toUs.swallow();
  await toEu.swallow();
}

async function heal(): Promise<void> {
  await toUs.heal();
  await toEu.heal();
  await Promise.all([untilLinked(us, 'eu'), untilLinked(eu, 'us')]);
}

test('units go to another region once, however often the transfer is asked for', async () => {
  const product = await openShares(60);
  const id = randomUUID();
  for (let times = 0; times < 2; times += 1) {
    await give(us, product, 'eu', 25, id);
    await untilStatus(us, product, 'arrived');
  }
  expect(await totals(product)).toEqual([35, 65]);
  expect(await transfersOf(eu, product)).toEqual([
    expect.objectContaining({ transfer_id: id, direction: 'in', region: 'us', units: 25, status: 'arrived' }),
  ]);
  expect(await give(us, product, 'eu', 24, id)).toMatchObject({ status: 409 });
  expect(await give(us, product, 'eu', 36)).toMatchObject({ status: 409, body: { detail: 'Only 35 units are free.' } });
  expect(await give(us, product, 'us', 1)).toMatchObject({ status: 400, body: { errors: [{ pointer: '#/to' }] } });
  expect(await totals(product)).toEqual([35, 65]);
});

test('a region that refuses units does not keep them, and the giver takes them back', async () => {
  const product = await openShares(60);
  await eu.operator.call('POST', `/admin/campaigns/${product}/close`);
  await give(us, product, 'eu', 10);
  await untilStatus(us, product, 'returned');
  expect((await transfersOf(us, product))[0]?.detail).toBeNull();
  expect((await transfersOf(eu, product))[0]).toMatchObject({ status: 'refused', detail: 'The campaign is closed.' });
  expect(await totals(product)).toEqual([60, 40]);
});

test('units that are on the way when both regions close their campaigns return to the giver', async () => {
  const product = await openShares(60);
  await cut();
  await give(us, product, 'eu', 10);
  await untilStatus(us, product, 'in_transit');
  for (const { operator } of [us, eu]) await operator.call('POST', `/admin/campaigns/${product}/close`);
  await heal();
  await until('the transfer ends', async () =>
    ['returned', 'stuck'].includes((await transfersOf(us, product))[0]?.status),
  );
  expect((await transfersOf(us, product))[0]).toMatchObject({ status: 'returned', detail: null });
  expect(await totals(product)).toEqual([60, 40]);
  await expectWhole(product);
});

test('units in transit are in no region, and arrive after a cut link and a killed giver', async () => {
  const product = await openShares(60);
  await cut();
  expect((await give(us, product, 'eu', 20)).status).toBe(202);
  await untilStatus(us, product, 'in_transit');
  expect(await totals(product)).toEqual([40, 40]);
  expect(await runRegions(us.stage.env)).toContain(`20 of ${product} to eu in_transit`);
  await us.stage.apis.at(-1)!.kill();
  await us.stage.startApi(us.stage.env, false);
  const isRefused = async () =>
    (await readinessOf(us.stage.url))?.checks.region?.detail === 'no other region has replied since the start';
  await until('the restarted region serves nothing', isRefused);
  expect(await us.operator.call('GET', `/admin/campaigns/${product}`)).toMatchObject({ status: 200 });
  const sale = `${us.stage.url}/flash-sale/campaign?product_id=${product}`;
  expect(await sendOnce(sale)).toMatchObject({ status: 503, body: { code: 'temporarily_unavailable' } });
  await heal();
  await untilStatus(us, product, 'arrived');
  expect(await totals(product)).toEqual([40, 60]);
});

test('the ledger does not miss a side that may have been deleted, and units too long on their way are not sent', async () => {
  const product = await openShares(60);
  await give(us, product, 'eu', 25);
  await untilStatus(us, product, 'arrived');
  const aged = (days: number) =>
    us.stage.query(
      'update region_transfers set created_at = now() - make_interval(days => $2) where product_id = $1 returning 1',
      [product, days],
    );
  await aged(40);
  await eu.stage.query('delete from region_transfers where product_id = $1', [product]);
  await expectWhole(product);
  await aged(20);
  expect((await ledgerCommand(us.stage.env, product, '--regions')).verdict).toMatchObject({ units_lost: 25 });

  await cut();
  const late = randomUUID();
  await give(us, product, 'eu', 5, late);
  await untilStatus(us, product, 'in_transit');
  await aged(40);
  await until('it is left to an operator', async () =>
    (await transfersOf(us, product)).some(({ transfer_id, status }) => transfer_id === late && status === 'stuck'),
  );
  await heal();
  expect(await totals(product)).toEqual([30, 65]);
});

test('units go to another region although the clocks of its processes are a month ahead', async () => {
  const product = await openShares(60);
  const processes = [us, eu].flatMap(({ stage }) => [stage.apis.at(-1)!, stage.workers.at(-1)!]);
  await clock.moveUnder(processes, 31 * 24 * HOUR_MS);
  await give(us, product, 'eu', 20);
  await until('the transfer ends', async () =>
    ['arrived', 'stuck'].includes((await transfersOf(us, product))[0]?.status),
  );
  await clock.moveUnder(processes, 0);
  expect(await transfersOf(us, product)).toMatchObject([{ status: 'arrived', detail: null }]);
  expect(await totals(product)).toEqual([40, 60]);
});

test('while both regions sell, transfers, cut links and killed APIs never make more units than there are', async () => {
  const product = await openShares(50, { waiting_room: { enabled: true } });
  // Slow at first, so that there are free units to give.
  const crowds = [us, eu].flatMap(({ name, stage }) =>
    [2, 20].map((perSecond) => stage.crowd(product, perSecond, undefined, () => userOf(name))),
  );
  const [slowUs, fastUs, slowEu, fastEu] = crowds as [Crowd, Crowd, Crowd, Crowd];
  for (const crowd of [slowUs, slowEu]) crowd.start();
  for (let round = 0; round < 4; round += 1) {
    const [from, to] = round % 2 === 0 ? [us, eu] : [eu, us];
    const id = randomUUID();
    // The response to it may be lost, in either place.
    if (round === 1) await toUs.loseResponseWith(id);
    if (round === 2) await toEu.loseResponseWith(id);
    const giving = give(from, product, to.name, 5, id).catch(() => null);
    if (round >= 2) {
      await from.stage.apis.at(-1)!.kill();
      await from.stage.startApi();
    }
    await giving;
  }
  await until('no unit is in transit', async () => {
    const all = [...(await transfersOf(us, product)), ...(await transfersOf(eu, product))];
    return all.every(({ status }) => ['arrived', 'returned', 'refused'].includes(status));
  });
  for (const crowd of [fastUs, fastEu]) crowd.start();
  const sum = async (field: string) => (await stocks(product)).reduce((all, stats) => all + Number(stats[field]), 0);
  await until('everything is sold', async () => (await sum('held')) === TOTAL);
  for (const crowd of crowds) await crowd.finish();
  expect([await sum('total'), await sum('held'), await sum('free')]).toEqual([TOTAL, TOTAL, 0]);
  for (const crowd of [slowUs, fastUs]) await us.stage.expectNothingLost(crowd, product);
  for (const crowd of [slowEu, fastEu]) await eu.stage.expectNothingLost(crowd, product);
  expect((await readinessOf(us.stage.url))?.status).toBe(200);
});

/** Waits until both regions know that they sell a product together. */
async function untilKnown(product: string): Promise<void> {
  for (const { operator } of [us, eu])
    await until('the region knows both campaigns', async () => {
      const { data } = await operator.call('GET', `/admin/campaigns/${product}/regions`);
      return data.regions.length === 2 && data.regions.every(({ units }: { units: unknown }) => units !== null);
    });
}

/** The ledger of a product in both regions, once Postgres has everything and nothing is on the way. */
async function expectWhole(product: string): Promise<void> {
  for (const { stage, name } of [us, eu]) {
    const found = await until('the ledger is at rest', async () => {
      const one = await ledgerCommand(stage.env, product, '--regions');
      return one.verdict.in_flight === 0 && one.verdict.in_transit === 0 && one;
    });
    expect(found).toMatchObject({
      code: 0,
      verdict: {
        ...{ lost: 0, duplicated: 0, over_cap: 0, drift: 0 },
        ...{ misplaced: 0, units_lost: 0, units_duplicated: 0, stuck: [] },
        regions: BOTH.map((region) => ({ region, problem: null })).sort((one) => (one.region === name ? -1 : 1)),
      },
    });
  }
}

test('a user gets one unit, and the first response to a key, in whichever region they ask', async () => {
  const product = await openShares(50);
  await untilKnown(product);
  const users = Array.from({ length: 20 }, () => `user-${randomUUID()}`);
  const checkout = (at: RegionStage, user: string, key: string) =>
    send(`${at.stage.url}/flash-sale/checkout`, {
      method: 'POST',
      json: { product_id: product, user_id: user, qty: 1 },
      headers: { 'idempotency-key': key },
    });
  await Promise.all(
    users.map(async (user) => {
      const key = randomUUID();
      const both = await Promise.all([checkout(us, user, key), checkout(eu, user, key)]);
      expect(both.map(({ status }) => status)).toEqual([200, 200]);
      expect(both[0]?.data.reservation_id).toBe(both[1]?.data.reservation_id);
      for (const at of [us, eu])
        expect(await checkout(at, user, randomUUID())).toMatchObject({
          status: 409,
          body: { code: 'already_redeemed' },
        });
    }),
  );
  const held = (await stocks(product)).map((stats) => Number(stats.held));
  expect(held.reduce((sum, one) => sum + one)).toBe(users.length);
  expect(Math.min(...held)).toBeGreaterThan(0);
  await expectWhole(product);
});

test('the code of a shared campaign is used once by a user in both regions together', async () => {
  const code = `SHARED${randomUUID().slice(0, 8).toUpperCase()}`;
  const product = await openShares(50, { code, hold_seconds: 0 });
  await untilKnown(product);
  const redeem = (at: RegionStage, user: string) =>
    send(`${at.stage.url}/coupons/redeem`, {
      method: 'POST',
      json: { code, user_id: user, order_id: `order-of-${randomUUID()}` },
      headers: { 'idempotency-key': randomUUID() },
    });
  for (const user of BOTH.map(userOf)) {
    await until('both regions know the code', async () => (await redeem(us, user)).status !== 404);
    const again = await Promise.all([redeem(us, user), redeem(eu, user)]);
    expect(again.map(({ body }) => body.code)).toEqual(['already_redeemed', 'already_redeemed']);
  }
  await expectWhole(product);
});

test('a cut link refuses the users of the other region, and sells to its own', async () => {
  const product = await openShares(50);
  await untilKnown(product);
  await cut();
  await until('the cut is noticed', async () => (await readinessOf(eu.stage.url))?.checks.region_us?.ok === false);
  const here = new Shopper(eu.stage.url, product, userOf('eu'));
  expect((await here.checkout()).status).toBe(200);
  const there = new Shopper(eu.stage.url, product, userOf('us'));
  expect(await there.checkout()).toMatchObject({ status: 503, body: { code: 'region_unavailable' } });
  const ledger = await ledgerCommand(eu.stage.env, product, '--regions');
  expect([ledger.code, ledger.verdict.regions[1].problem === null]).toEqual([2, false]);
  await heal();
  expect((await there.checkout()).status).toBe(200);
  await expectWhole(product);
});

test('free units go by themselves to the region where users wait for them', async () => {
  const product = await openShares(TOTAL - 2, { waiting_room: { enabled: true } });
  await untilKnown(product);
  const shoppers = Array.from({ length: 12 }, () => new Shopper(us.stage.url, product, userOf('eu')));
  for (const shopper of shoppers) await shopper.checkout();
  await until('everybody has a unit', async () => {
    const { held } = await eu.operator.stats(product);
    return held === shoppers.length;
  });
  expect((await totals(product)).reduce((sum, one) => sum + one)).toBe(TOTAL);
  const data = await until('nothing is on the way', async () => {
    const found = (await us.operator.call('GET', `/admin/campaigns/${product}/regions`)).data;
    return found.in_transit === 0 && found;
  });
  expect(data.regions).toMatchObject([
    { region: 'us', own: true, problem: null },
    { region: 'eu', own: false, problem: null, units: { held: shoppers.length, waiting: 0 } },
  ]);
  expect(data.transfers[0]).toMatchObject({ direction: 'out', region: 'eu', status: 'arrived' });
  const [first] = shoppers as [Shopper];
  const { reservation_id } = (await first.queueStatus({ 'x-ticket': String(first.ticket) })).data;
  expect(await new PaymentService(us.stage.url).say('extend', { reservation_id })).toMatchObject({ status: 200 });
  await expectWhole(product);
});

test('a product is sold by two regions only with the same list', async () => {
  const product = `alone-${randomUUID()}`;
  const create = (at: RegionStage, regions?: string[], more: object = {}) =>
    at.operator.call('POST', '/admin/campaigns', { product_id: product, total_limit: 1, regions, ...more });
  for (const [regions, more] of [
    [['us', 'asia'], {}],
    [['eu', 'us', 'us'], {}],
    [['eu', 'asia'], {}],
    [['us'], {}],
    [BOTH, { type: 'unique' }],
  ] as const)
    expect(await create(us, [...regions], more)).toMatchObject({ status: 400, body: { code: 'invalid_request' } });
  await cut();
  await until('the cut is noticed', async () => (await readinessOf(us.stage.url))?.checks.region_eu?.ok === false);
  expect(await create(us, BOTH)).toMatchObject({ status: 503, body: { code: 'region_unavailable' } });
  await heal();
  expect((await create(us)).status).toBe(201);
  await until('the other region refuses it', async () => {
    const { status, body } = await create(eu, BOTH, { draft: true });
    return status === 409 && body.code === 'campaign_conflict';
  });
});

test('users who come as soon as there are campaigns get one unit each, by product and by code', async () => {
  for (let round = 0; round < 3; round += 1) {
    const code = `EARLY${randomUUID().slice(0, 8).toUpperCase()}`;
    const product = await openShares(50, { code });
    const users = Array.from({ length: 12 }, () => `user-${randomUUID()}`);
    const post = (at: RegionStage, path: string, json: object) =>
      send(`${at.stage.url}${path}`, { method: 'POST', json, headers: { 'idempotency-key': randomUUID() } });
    const attempts = users.flatMap((user) =>
      [us, eu].flatMap((at) => [
        () => post(at, '/flash-sale/checkout', { product_id: product, user_id: user, qty: 1 }),
        () => post(at, '/coupons/redeem', { code, user_id: user, order_id: `order-${randomUUID()}` }),
      ]),
    );
    await Promise.all(attempts.map((attempt) => attempt()));
    await untilKnown(product);
    await Promise.all(attempts.map((attempt) => attempt()));
    await until('each user has a unit', async () => {
      const held = (await stocks(product)).reduce((sum, stats) => sum + Number(stats.held), 0);
      return held === users.length;
    });
    await expectWhole(product);
  }
});

/** Buys one unit for a new user of a region. */
async function hold(at: RegionStage, region: string, product: string): Promise<string> {
  const { status, data } = await new Shopper(at.stage.url, product, userOf(region)).checkout();
  expect(status).toBe(200);
  return data.reservation_id;
}

test('a line is kept while another region has unpaid units, and gets one that comes back', async () => {
  const product = await openShares(2, { waiting_room: { enabled: true } }, 3);
  await untilKnown(product);
  // A region without units would get some of the other one.
  await cut();
  await new PaymentService(eu.stage.url).confirm(await hold(eu, 'eu', product));
  const unpaid = [await hold(us, 'us', product), await hold(us, 'us', product)];
  await heal();
  const next = new Shopper(eu.stage.url, product, userOf('eu'));
  expect((await next.checkout()).status).toBe(202);
  const redis = eu.stage.connectToRedis();
  await until('the region knows of the units of the other one', async () =>
    (await redis.hget(keys.campaign(product as ProductId), 'elsewhere'))?.startsWith('units|'),
  );
  await new PaymentService(us.stage.url).release(String(unpaid[0]));
  await until('the next one has it', async () => (await next.queueStatus()).data.status === 'promoted');
  expect(await totals(product)).toEqual([1, 2]);
});

test('the line of a region that gave all of its units away ends when none is left anywhere', async () => {
  const product = await openShares(1, { waiting_room: { enabled: true } }, 2);
  await untilKnown(product);
  const payments = new PaymentService(us.stage.url);
  await payments.confirm(await hold(us, 'us', product));
  await give(eu, product, 'us', 1);
  await untilStatus(eu, product, 'arrived');
  await payments.confirm(await hold(us, 'us', product));
  const late = new Shopper(eu.stage.url, product, userOf('eu'));
  expect((await late.checkout()).status).toBe(202);
  await until('the line is closed', async () => (await late.queueStatus()).data.status === 'closed');
  expect((await new Shopper(eu.stage.url, product, userOf('eu')).checkout()).body.code).toBe('sold_out');
  expect(await totals(product)).toEqual([2, 0]);
});

test('a region that is sold out gets units again after a long cut, and serves a group', async () => {
  const product = await openShares(TOTAL - 1, { waiting_room: { enabled: true }, max_qty: 4 });
  await untilKnown(product);
  await cut();
  const payments = new PaymentService(eu.stage.url);
  const buy = (user: string, qty: number) => new Shopper(eu.stage.url, product, user).checkout({ qty });
  const { data } = await buy(userOf('eu'), 1);
  await payments.confirm(data.reservation_id);
  await heal();
  const group = new Shopper(eu.stage.url, product, userOf('eu'));
  await until('a group of four has its units', async () => {
    const { status } = (await group.queueStatus()).data;
    if (status === 'promoted' || status === 'completed') return true;
    await group.checkout({ qty: 4 });
    return (await eu.operator.stats(product)).held === 4;
  });
  expect((await totals(product)).reduce((sum, one) => sum + one)).toBe(TOTAL);
  await expectWhole(product);
});

test('of two groups that wait for units of the other region, one is served', async () => {
  const product = await openShares(3, { waiting_room: { enabled: true }, max_qty: 4 }, 6);
  await untilKnown(product);
  await cut();
  const groups = [us, eu].map(({ stage, name }) => new Shopper(stage.url, product, userOf(name)));
  for (const group of groups) expect((await group.checkout({ qty: 4 })).data.status).toBe('queued');
  await heal();
  await until('a group has its units', async () => {
    const held = (await stocks(product)).map((stock) => stock.held as number);
    return held.includes(4);
  });
  expect((await stocks(product)).map(({ waiting }) => waiting).sort()).toEqual([0, 1]);
  await expectWhole(product);
});

test('users behind groups that want more than both regions have are served, also by a unit that comes back', async () => {
  const product = await openShares(1, { waiting_room: { enabled: true }, max_qty: 3 }, 2);
  await untilKnown(product);
  await cut();
  const all = [us, eu].flatMap((at) => [3, 1, 1].map((qty) => ({ at, qty, user: userOf(at.name) })));
  for (const { at, qty, user } of all) await new Shopper(at.stage.url, product, user).checkout({ qty });
  await heal();
  const served = async (count: number) =>
    until(`${count} units are sold`, async () => {
      const rows = await Promise.all(
        [us, eu].map(({ stage }) =>
          stage.query<{ id: string }>(
            "select redemption_id as id from redemptions r join campaigns c using (campaign_id) where c.product_id = $1 and r.status in ('reserved', 'redeemed')",
            [product],
          ),
        ),
      );
      const ids = rows.flatMap((found) => found.map(({ id }) => id));
      return ids.length === count && ids;
    });
  for (const id of await served(2)) await new PaymentService(us.stage.url).release(id);
  await served(2);
  await expectWhole(product);
});

test('a region takes no units of one that does not sell the product with it', async () => {
  const shared = await openShares(60);
  const alone = await us.stage.openCampaign({ total_limit: 5 });
  const headers = { 'doorbuster-region-key': REGION_SECRET };
  const take = (product_id: string, from: string) => {
    const json = { transfer_id: randomUUID(), product_id, from, units: 1_000 };
    return send(`${us.stage.url}/regions/transfers`, { method: 'POST', json, headers });
  };
  for (const [product, from] of [
    [shared, 'us'],
    [shared, 'zz'],
    [alone, 'eu'],
  ] as const)
    expectProblem(await take(product, from), 409, 'campaign_conflict');
  expect(await totals(shared)).toEqual([60, 40]);
  expect((await us.operator.stats(alone)).total).toBe(5);
});
