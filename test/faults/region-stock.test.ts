import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { sendOnce } from '../harness/clients.js';
import type { Crowd } from '../harness/crowd.js';
import { HOUR_MS, MovedClock } from '../harness/moved-clock.js';
import { type RegionStage, readinessOf, runRegions, startTwoRegions, untilLinked } from '../harness/region-stage.js';
import { until } from '../harness/until.js';

const clock = new MovedClock();
const { us, eu, toUs, toEu } = await startTwoRegions(clock.env);
const TOTAL = 100;

/** One product in both regions, each with its share. */
async function openShares(ofUs: number, terms: Record<string, unknown> = {}): Promise<string> {
  const product = `split-${randomUUID()}`;
  const open = (at: RegionStage, units: number) =>
    at.operator.call('POST', '/admin/campaigns', {
      product_id: product,
      total_limit: units,
      hold_seconds: 600,
      require_attestation: false,
      ...terms,
    });
  const opened = await Promise.all([open(us, ofUs), open(eu, TOTAL - ofUs)]);
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
  await toUs.forward();
  await toEu.forward();
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
  const crowds = [us, eu].flatMap(({ stage }) => [stage.crowd(product, 2), stage.crowd(product, 20)]);
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
