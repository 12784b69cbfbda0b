import { expect, test } from '@jest/globals';
import { expireNow } from '../harness/campaign.js';
import { expectInPostgres, expectRows, expectStock } from '../harness/checks.js';
import { type Answer, Operator, PaymentService, type Shopper } from '../harness/clients.js';
import { sharedService } from '../harness/service.js';
import {
  arrive,
  checkoutAtOnce,
  checkoutInTurn,
  countStatuses,
  forEachAtMost,
  gatherShoppers,
  joinLine,
  range,
  theOne,
} from '../harness/shoppers.js';
import { until } from '../harness/until.js';
import { promised } from '../harness/violation.js';

const service = await sharedService();
const operator = new Operator(service.url);
const payments = new PaymentService(service.url);
const waiting_room = { enabled: true };

const positionsOf = (answers: readonly Answer[]) =>
  answers
    .filter(({ status }) => status === 202)
    .map(({ data }) => Number(data.position))
    .sort((a, b) => a - b);

const reservationsOf = (answers: readonly Answer[]) =>
  answers.filter(({ status }) => status === 200).map(({ data }) => String(data.reservation_id));

/** Checks that these users, and no others, were promoted in this order. */
async function expectPromoted(product: string, users: string[]): Promise<void> {
  const promoted = await promotedUsers(product);
  promised(() => expect(promoted).toEqual(users));
}

/** Users whom Postgres has as promoted from the line, in the order in which that happened. */
async function promotedUsers(product: string): Promise<string[]> {
  const { rows } = await service.database.client.query<{ user_id: string }>(
    `select user_id from redemptions join campaigns using (campaign_id)
     where product_id = $1 and line_no is not null order by reserved_at, line_no`,
    [product],
  );
  return rows.map(({ user_id }) => user_id);
}

async function countWaiting(product: string): Promise<number> {
  const { rows } = await service.database.client.query<{ count: number }>(
    `select count(*)::int as count from waiting_tickets t join campaigns using (campaign_id)
     where product_id = $1 and t.status = 'waiting'`,
    [product],
  );
  return rows[0]?.count ?? 0;
}

test('the service gives 100 units to exactly 100 of 200 simultaneous shoppers, and the others places 1 to 100, each once', async () => {
  const product = await operator.openCampaign({ total_limit: 100, hold_seconds: 900, waiting_room });
  const answers = await checkoutAtOnce(gatherShoppers(service.url, product, 200));

  expect(countStatuses(answers)).toEqual({ 200: 100, 202: 100 });
  expect(positionsOf(answers)).toEqual(range(1, 100));
  expect(new Set(answers.filter(({ status }) => status === 200).map(({ data }) => data.order_id)).size).toBe(100);
  await expectInPostgres(service, reservationsOf(answers));
  await expectRows(service, product, { reserved: 100 });
  await expectStock(operator, product, { total: 100, held: 100, waiting: 100 });
});

test('the service gives the last unit to exactly one of twenty simultaneous shoppers and the others places 1 to 19', async () => {
  const product = await operator.openCampaign({ total_limit: 1, hold_seconds: 900, waiting_room });
  const answers = await checkoutAtOnce(gatherShoppers(service.url, product, 20));

  expect(countStatuses(answers)).toEqual({ 200: 1, 202: 19 });
  expect(positionsOf(answers)).toEqual(range(1, 19));
  await expectInPostgres(service, reservationsOf(answers));
  await expectRows(service, product, { reserved: 1 });
  await expectStock(operator, product, { total: 1, held: 1, waiting: 19 });
});

test('the service gives the last unit to exactly one of twenty simultaneous shoppers when there is no line', async () => {
  const product = await operator.openCampaign({ total_limit: 1, hold_seconds: 0 });
  const answers = await checkoutAtOnce(gatherShoppers(service.url, product, 20));

  expect(countStatuses(answers)).toEqual({ 200: 1, 410: 19 });
  await expectInPostgres(service, [String(theOne(answers, 200).data.reservation_id)]);
  await expectRows(service, product, { redeemed: 1 });
  await expectStock(operator, product, { total: 1, redeemed: 1 });
});

test('the service gives units that come back by release and by expiry to the head of the line, past 1000 new users who retry without pause', async () => {
  const product = await operator.openCampaign({ total_limit: 40, hold_seconds: 900, waiting_room });
  const givingUp = await checkoutAtOnce(gatherShoppers(service.url, product, 20));
  // These users do not pay in time.
  const forgetful = await checkoutAtOnce(gatherShoppers(service.url, product, 20));
  const line = await joinLine(gatherShoppers(service.url, product, 60));
  expect(await Promise.all(line.map(placeOf))).toEqual(range(1, 60));

  const newcomers = gatherShoppers(service.url, product, 1000);
  const answers: Answer[] = [];
  await Promise.all([
    forEachAtMost(50, newcomers, async (shopper) => void answers.push(await shopper.checkout())),
    forEachAtMost(2, reservationsOf(givingUp), async (id) => {
      expect((await payments.release(id)).data.status).toBe('released');
    }),
    expireNow(service.redis.client, product, ...reservationsOf(forgetful)),
  ]);
  await until('all forty units have changed hands', async () => (await operator.stats(product)).waiting === 1020);

  expect(countStatuses(answers)).toEqual({ 202: 1000 });
  await expectStock(operator, product, { total: 40, held: 40, waiting: 1020 });
  await expectInPostgres(service, reservationsOf([...givingUp, ...forgetful]));
  await expectRows(service, product, { expired: 20, released: 20, reserved: 40 });
  await expectPromoted(product, namesOf(line.slice(0, 40)));
  await until('every place is in Postgres', async () => (await countWaiting(product)) === 1020);
  expect(await Promise.all(line.slice(40).map(placeOf))).toEqual(range(1, 20));
  // Every user behind them has a position, and no position occurs twice.
  const places = await Promise.all(newcomers.map(placeOf));
  expect(places.sort((a, b) => a - b)).toEqual(range(21, 1020));
});

test('the service goes on in the order of the line when the promoted give up in their turn', async () => {
  const product = await operator.openCampaign({ total_limit: 5, hold_seconds: 900, waiting_room });
  let holders = reservationsOf(await checkoutInTurn(gatherShoppers(service.url, product, 5)));
  const line = gatherShoppers(service.url, product, 20);
  await checkoutInTurn(line);
  for (const round of range(0, 3)) {
    await Promise.all(holders.map((id) => payments.release(id)));
    const next = line.slice(round * 5, round * 5 + 5);
    const standings = await Promise.all(
      next.map((shopper) => shopper.queueStatus({ 'x-ticket': String(shopper.ticket) })),
    );
    expect(standings.map(({ data }) => data.status)).toEqual(Array(5).fill('promoted'));
    holders = standings.map(({ data }) => String(data.reservation_id));
  }
  await expectInPostgres(service, holders);
  await expectRows(service, product, { released: 20, reserved: 5 });
  await expectPromoted(product, namesOf(line));
  await expectStock(operator, product, { total: 5, held: 5 });
});

test('the service lets no user past a head of the line who wants more units than are free', async () => {
  const product = await operator.openCampaign({ total_limit: 2, max_qty: 2, hold_seconds: 900, waiting_room });
  const holders = reservationsOf(await checkoutInTurn(gatherShoppers(service.url, product, 2)));
  const wantsTwo = arrive(service.url, product);
  const wantsOne = arrive(service.url, product);
  expect((await wantsTwo.checkout({ qty: 2 })).data.position).toBe(1);
  expect((await wantsOne.checkout()).data.position).toBe(2);

  await payments.release(String(holders[0]));
  expect((await arrive(service.url, product).checkout()).data).toMatchObject({ status: 'queued', position: 3 });
  expect(await Promise.all([wantsTwo, wantsOne].map(placeOf))).toEqual([1, 2]);
  await expectStock(operator, product, { total: 2, free: 1, held: 1, waiting: 3 });

  await payments.release(String(holders[1]));
  expect((await wantsTwo.queueStatus()).data.status).toBe('promoted');
  expect(await placeOf(wantsOne)).toBe(1);
  await expectStock(operator, product, { total: 2, held: 2, waiting: 2 });
});

const namesOf = (shoppers: readonly Shopper[]) => shoppers.map(({ user }) => user);

async function placeOf(shopper: Shopper): Promise<number> {
  return Number((await shopper.queueStatus()).data.position);
}
