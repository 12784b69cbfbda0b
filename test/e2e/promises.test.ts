import { describe, expect, test } from '@jest/globals';
import { expectInPostgres, expectProblem, expectRows, expectStock } from '../harness/checks.js';
import { type Answer, Operator, PaymentService, send } from '../harness/clients.js';
import { sharedService } from '../harness/service.js';
import { arrive, checkoutAtOnce, countStatuses, gatherShoppers, range, theOne } from '../harness/shoppers.js';
import { redisSeconds } from '../harness/tokens.js';
import { until } from '../harness/until.js';

const service = await sharedService();
const operator = new Operator(service.url);
const payments = new PaymentService(service.url);

/** Buys a unit and says what it is called. */
async function buy(product: string): Promise<{ id: string; ticket: string; user: string; data: Answer['data'] }> {
  const shopper = arrive(service.url, product);
  const { status, text, data } = await shopper.checkout();
  if (status !== 200) throw new Error(`nothing was bought: ${text}`);
  return { id: String(data.reservation_id), ticket: String(data.ticket), user: shopper.user, data };
}

/** The same ticket with one character of its signature changed. */
const forged = (ticket: string) =>
  ticket.replace(/\.(.)([^.]*)$/, (_, first, rest) => `.${first === 'A' ? 'B' : 'A'}${rest}`);

const releaseWithTicket = (id: string, ticket: string) =>
  send(`${service.url}/flash-sale/release`, {
    method: 'POST',
    headers: { 'x-ticket': ticket },
    json: { reservation_id: id },
  });

async function untilRedis(seconds: number): Promise<void> {
  await until('the time has come', async () => (await redisSeconds(service.redis.client)) >= seconds);
}

/** The hold of a campaign's only reservation has run out and the sweep has been there. */
async function untilSwept(product: string): Promise<void> {
  await until('the sweep has been there', async () => Number((await operator.stats(product)).held) === 0);
}

describe('confirm, release and expiry racing', () => {
  test('end each of 60 reservations exactly once, and every repeated call hears the same', async () => {
    const product = await operator.openCampaign({ total_limit: 60, hold_seconds: 1 });
    const bought = await checkoutAtOnce(gatherShoppers(service.url, product, 60));
    expect(countStatuses(bought)).toEqual({ 200: 60 });

    // A third is called well before its deadline, a third around it, a third after it.
    const ends = await Promise.all(
      bought.map(async ({ data }, i) => {
        const id = String(data.reservation_id);
        const offset = [-0.3, (i % 20) / 100 - 0.1, 0.15][i % 3] ?? 0;
        await untilRedis(Date.parse(String(data.pay_before)) / 1000 + offset);
        const calls = i % 2 === 0 ? (['confirm', 'release'] as const) : (['release', 'confirm'] as const);
        const [first, second] = await Promise.all(calls.map((call) => payments[call](id)));
        const [confirmed, released] = i % 2 === 0 ? [first, second] : [second, first];
        return {
          id,
          confirmed: confirmed?.text,
          released: released?.text,
          statuses: [confirmed?.status, released?.status],
        };
      }),
    );
    await untilSwept(product);

    for (const end of ends) {
      const { confirmed, released } = end;
      const outcome = end.statuses.join();
      expect(['200,409', '409,200']).toContain(outcome);
      expect(outcome === '200,409' ? released : confirmed).toContain(
        outcome === '200,409' ? 'reservation_redeemed' : 'reservation_released',
      );
      // `instance` names the request, everything else is the same.
      for (const _ of [1, 2]) {
        expect(withoutInstance((await payments.confirm(end.id)).text)).toBe(withoutInstance(confirmed));
        expect(withoutInstance((await payments.release(end.id)).text)).toBe(withoutInstance(released));
      }
    }
    const count = (word: string) => ends.filter(({ released }) => released?.includes(word)).length;
    const [redeemed, released, expired] = [count('reservation_redeemed'), count('"released"}'), count('"expired"}')];
    expect(redeemed + released + expired).toBe(60);
    // Those who called after the deadline came too late, whatever they called.
    expect(ends.filter((_, i) => i % 3 === 2).map(({ released }) => released?.includes('"expired"}'))).toEqual(
      Array(20).fill(true),
    );
    await expectStock(operator, product, { total: 60, free: 60 - redeemed, redeemed });
    await expectInPostgres(
      service,
      ends.map(({ id }) => id),
    );
    await expectRows(service, product, nonZero({ redeemed, released, expired }));
  });

  test('twenty confirms and twenty releases at once agree on one end', async () => {
    const product = await operator.openCampaign({ total_limit: 1, hold_seconds: 900 });
    const { id } = await buy(product);
    const [confirms, releases] = await Promise.all([
      Promise.all(Array.from({ length: 20 }, () => payments.confirm(id))),
      Promise.all(Array.from({ length: 20 }, () => payments.release(id))),
    ]);
    const paid = confirms[0]?.status === 200;
    expect([countStatuses(confirms), countStatuses(releases)]).toEqual(
      paid ? [{ 200: 20 }, { 409: 20 }] : [{ 409: 20 }, { 200: 20 }],
    );
    await expectStock(operator, product, { total: 1, ...(paid ? { redeemed: 1 } : { free: 1 }) });
  });
});

test('a payment is known in the moment of its campaign: ten sales in a row, each opened, bought and paid at once', async () => {
  for (const _ of range(1, 10)) {
    const { id, data } = await buy(await operator.openCampaign({ total_limit: 1, hold_seconds: 900 }));
    const { status, text } = await payments.confirm(id);
    expect([status, text]).toEqual([
      200,
      JSON.stringify({ data: { reservation_id: id, status: 'redeemed', order_id: data.order_id } }),
    ]);
  }
});

describe('release', () => {
  test('repeated, by the service and by the holder, says the same and gives the unit back once', async () => {
    const product = await operator.openCampaign({ total_limit: 5, hold_seconds: 900 });
    const { id, ticket } = await buy(product);
    const answers = [
      await payments.release(id, 'card refused'),
      await payments.release(id),
      await releaseWithTicket(id, ticket),
    ];
    for (const { status, body } of answers) {
      expect({ status, body }).toEqual({
        status: 200,
        body: { data: { reservation_id: id, released: true, status: 'released' } },
      });
    }
    await expectStock(operator, product, { total: 5, free: 5 });
    await expectRows(service, product, { released: 1 });
  });

  test('belongs to the service and to the holder alone', async () => {
    const product = await operator.openCampaign({ total_limit: 5, hold_seconds: 900 });
    const [mine, theirs] = [await buy(product), await buy(product)];
    const elsewhere = await buy(await operator.openCampaign({ total_limit: 5, hold_seconds: 900 }));
    expectProblem(await releaseWithTicket(mine.id, theirs.ticket), 403, 'forbidden');
    expectProblem(await releaseWithTicket(mine.id, elsewhere.ticket), 403, 'forbidden');
    expectProblem(await releaseWithTicket(mine.id, forged(mine.ticket)), 401, 'ticket_invalid');
    await expectStock(operator, product, { total: 5, free: 3, held: 2 });
    expect((await releaseWithTicket(mine.id, mine.ticket)).status).toBe(200);
  });

  test('lets the same user buy again', async () => {
    const product = await operator.openCampaign({ total_limit: 1, hold_seconds: 900 });
    const shopper = arrive(service.url, product);
    for (const _ of [1, 2, 3]) {
      const bought = await shopper.checkout();
      expect(bought.status).toBe(200);
      await payments.release(String(bought.data.reservation_id));
    }
    await expectStock(operator, product, { total: 1, free: 1 });
    await expectRows(service, product, { released: 3 });
  });

  test('of an unknown reservation is 404, as confirm and refund of it are', async () => {
    const { id } = await buy(await operator.openCampaign({ total_limit: 1, hold_seconds: 900 }));
    for (const unknown of [
      `01900000-0000-7000-8000-0000${id.slice(-8)}`,
      '01900000-0000-7000-8000-00007fffffff',
      'RES-abc123',
    ]) {
      for (const call of ['confirm', 'release', 'refund'] as const) {
        expectProblem(await payments[call](unknown), 404, 'reservation_not_found');
      }
    }
  });
});

describe('refund', () => {
  test('with the policy "return" gives the unit and the allowance back, once', async () => {
    const product = await operator.openCampaign({ total_limit: 1, hold_seconds: 900, refund_policy: 'return' });
    const shopper = arrive(service.url, product);
    const id = String((await shopper.checkout()).data.reservation_id);
    expectProblem(await payments.refund(id), 409, 'reservation_not_redeemed');
    await payments.confirm(id);
    for (const _ of [1, 2, 3]) {
      expect((await payments.refund(id)).data).toMatchObject({ status: 'refunded', returned_to_stock: true });
    }
    await expectStock(operator, product, { total: 1, free: 1 });
    expect((await shopper.checkout()).status).toBe(200);
    for (const call of ['confirm', 'release'] as const) expect((await payments[call](id)).status).toBe(409);
    await expectStock(operator, product, { total: 1, held: 1 });
    await expectRows(service, product, { refunded: 1, reserved: 1 });
  });

  test('with the policy "return" gives the unit to the head of the line', async () => {
    const product = await operator.openCampaign({ total_limit: 1, hold_seconds: 900, waiting_room: { enabled: true } });
    const { id } = await buy(product);
    await payments.confirm(id);
    const waiting = arrive(service.url, product);
    await waiting.checkout();
    expect((await payments.refund(id)).data.returned_to_stock).toBe(true);
    expect((await waiting.queueStatus()).data.status).toBe('promoted');
    await expectStock(operator, product, { total: 1, held: 1 });
  });

  test('with the policy "burn" gives the unit to no user', async () => {
    const product = await operator.openCampaign({ total_limit: 2, hold_seconds: 900, refund_policy: 'burn' });
    const shopper = arrive(service.url, product);
    const id = String((await shopper.checkout()).data.reservation_id);
    await payments.confirm(id);
    for (const _ of [1, 2, 3]) {
      expect((await payments.refund(id)).data).toMatchObject({ status: 'refunded', returned_to_stock: false });
    }
    await expectStock(operator, product, { total: 2, free: 1, burned: 1 });
    expectProblem(await shopper.checkout(), 409, 'already_redeemed');
    await expectRows(service, product, { refunded: 1 });
  });
});

describe('a payment that comes too late', () => {
  test('is refused when the campaign says "refuse", although a unit is free', async () => {
    const product = await operator.openCampaign({ total_limit: 1, hold_seconds: 1, late_payment: 'refuse' });
    const { id } = await buy(product);
    await untilSwept(product);
    for (const _ of [1, 2]) expectProblem(await payments.confirm(id), 409, 'reservation_released');
    await expectStock(operator, product, { total: 1, free: 1 });
  });

  test('is refused at the deadline itself, whether or not a sweep has been there', async () => {
    const product = await operator.openCampaign({ total_limit: 1, hold_seconds: 1, late_payment: 'refuse' });
    const { id, data } = await buy(product);
    await untilRedis(Date.parse(String(data.pay_before)) / 1000);
    expectProblem(await payments.confirm(id), 409, 'reservation_released');
    expect((await payments.release(id)).data).toEqual({ reservation_id: id, released: true, status: 'expired' });
  });

  test('takes a free unit again when the campaign says "reacquire", and says so every time', async () => {
    const product = await operator.openCampaign({ total_limit: 1, hold_seconds: 1, late_payment: 'reacquire' });
    const { id, data } = await buy(product);
    await untilSwept(product);
    for (const _ of [1, 2, 3]) {
      expect((await payments.confirm(id)).body).toEqual({
        data: { reservation_id: id, status: 'redeemed', order_id: data.order_id, reacquired: true },
      });
    }
    expectProblem(await payments.release(id), 409, 'reservation_redeemed');
    await expectStock(operator, product, { total: 1, redeemed: 1 });
    await expectRows(service, product, { redeemed: 1 });
  });

  test('finds nothing to reacquire when the unit is sold, or went to a waiting user', async () => {
    const terms = { total_limit: 1, hold_seconds: 1, late_payment: 'reacquire', waiting_room: { enabled: true } };
    const [sold, handedOver] = [await operator.openCampaign(terms), await operator.openCampaign(terms)];
    const late = [await buy(sold), await buy(handedOver)];
    for (const product of [sold, handedOver]) {
      await operator.call('PATCH', `/admin/campaigns/${product}`, { hold_seconds: 900 });
    }
    await arrive(service.url, handedOver).checkout();
    await untilSwept(sold);
    await buy(sold);
    await until('the unit was handed over', async () => (await operator.stats(handedOver)).waiting === 0);
    for (const { id } of late) expectProblem(await payments.confirm(id), 409, 'reservation_released');
    await expectStock(operator, sold, { total: 1, held: 1 });
    await expectStock(operator, handedOver, { total: 1, held: 1 });
  });
});

describe('one user with two devices at once', () => {
  test('gets one unit', async () => {
    const product = await operator.openCampaign({ total_limit: 10, hold_seconds: 900 });
    const answers = await checkoutAtOnce([arrive(service.url, product, 'ani'), arrive(service.url, product, 'ani')]);
    expect(countStatuses(answers)).toEqual({ 200: 1, 409: 1 });
    expectProblem(theOne(answers, 409), 409, 'already_redeemed');
    await expectStock(operator, product, { total: 10, free: 9, held: 1 });
  });

  test('gets one place in line', async () => {
    const product = await operator.openCampaign({ total_limit: 0, hold_seconds: 900, waiting_room: { enabled: true } });
    const answers = await checkoutAtOnce([arrive(service.url, product, 'ani'), arrive(service.url, product, 'ani')]);
    expect(answers.map(({ status, data }) => [status, data.position, data.queue_size])).toEqual(
      Array(2).fill([202, 1, 1]),
    );
    await expectStock(operator, product, { total: 0, waiting: 1 });
  });

  test('gets as many units as the campaign allows a user, and no more', async () => {
    const product = await operator.openCampaign({ total_limit: 10, hold_seconds: 900, per_user_limit: 3 });
    const answers = await checkoutAtOnce(Array.from({ length: 12 }, () => arrive(service.url, product, 'ani')));
    expect(countStatuses(answers)).toEqual({ 200: 3, 409: 9 });
    await expectStock(operator, product, { total: 10, free: 7, held: 3 });
    await expectRows(service, product, { reserved: 3 });
  });
});

const withoutInstance = (text: string | undefined) => text?.replace(/"instance":"[^"]*"/, '');
const nonZero = (counts: Record<string, number>) =>
  Object.fromEntries(Object.entries(counts).filter(([, count]) => count > 0));
