import { describe, expect, test } from '@jest/globals';
import { expireNow } from '../harness/campaign.js';
import { expectProblem, expectRows, expectStock, withoutAdvice } from '../harness/checks.js';
import { type Answer, Operator, PaymentService, type Shopper, send } from '../harness/clients.js';
import { sharedService } from '../harness/service.js';
import { arrive, checkoutAtOnce, checkoutInTurn, countStatuses, gatherShoppers } from '../harness/shoppers.js';
import { openSocket } from '../harness/sockets.js';
import { until } from '../harness/until.js';

const service = await sharedService();
const operator = new Operator(service.url);
const payments = new PaymentService(service.url);

/** A campaign of one unit that is held, and a line behind it. */
async function openWithLine(count: number, terms: Record<string, unknown> = {}) {
  const product = await operator.openCampaign({
    total_limit: 1,
    hold_seconds: 900,
    waiting_room: { enabled: true },
    ...terms,
  });
  const holder = await arrive(service.url, product).checkout();
  const line = gatherShoppers(service.url, product, count);
  await checkoutInTurn(line);
  return { product, held: String(holder.data.reservation_id), line };
}

const statusOf = async (shopper: Shopper) => (await shopper.queueStatus()).data.status;
const placeOf = async (shopper: Shopper) => (await shopper.queueStatus()).data.position;
const withTicket = (shopper: Shopper) => shopper.queueStatus({ 'x-ticket': String(shopper.ticket) });

test('how far a line has come is public, for a cache, and counts who was served from it', async () => {
  const { product, held, line } = await openWithLine(3);
  const get = (id = product) => send(`${service.url}/flash-sale/line?product_id=${id}`);
  const first = await get();
  expect([first.status, first.headers.get('cache-control'), first.headers.get('vary')]).toEqual([
    200,
    'public, max-age=1',
    'Origin',
  ]);
  const { server_time, ...progress } = first.data;
  expect(progress).toEqual({ product_id: product, served: 0, waiting: 3, must_be_seen: false });
  expect(Math.abs(Date.parse(server_time) - Date.now())).toBeLessThan(60_000);
  await line[1]?.leave();
  expect((await get()).data).toMatchObject({ served: 0, waiting: 2 });
  await payments.release(held);
  expect((await get()).data).toMatchObject({ served: 1, waiting: 1 });
  const present = await openWithLine(1, { waiting_room: { enabled: true, presence_seconds: 60 } });
  expect((await get(present.product)).data.must_be_seen).toBe(true);
  const draft = await operator.openCampaign({ draft: true });
  for (const unknown of [draft, 'no-such-sale']) expectProblem(await get(unknown), 404, 'campaign_not_found');
});

describe('a place in line', () => {
  test('is returned with all its fields, and with the ticket also those for the holder alone', async () => {
    const { line } = await openWithLine(3);
    const [, second] = line as [Shopper, Shopper, Shopper];
    const standing = { status: 'queued', position: 2, queue_size: 3 };
    expect(withoutAdvice((await second.queueStatus()).data)).toEqual(standing);
    const toHolder = { ...standing, reservation_id: null, order_id: null, pay_before: null };
    expect(withoutAdvice((await withTicket(second)).data)).toEqual(toHolder);
  });

  test('has an ETag, and 304 as long as nothing changes', async () => {
    const { held, line } = await openWithLine(2);
    const [first, second] = line as [Shopper, Shopper];
    const etag = String((await second.queueStatus()).headers.get('etag'));
    const unchanged = await second.queueStatus({ 'if-none-match': etag });
    expect([unchanged.status, unchanged.text, unchanged.headers.get('etag')]).toEqual([304, '', etag]);
    await payments.release(held);
    expect(await statusOf(first)).toBe('promoted');
    const changed = await second.queueStatus({ 'if-none-match': etag });
    expect([changed.status, changed.data.position]).toEqual([200, 1]);
    expect(changed.headers.get('etag')).not.toBe(etag);
  });

  test('of an unknown user is "not_queued", and of an unknown product 404', async () => {
    const { product } = await openWithLine(0);
    const stranger = arrive(service.url, product);
    expect((await stranger.queueStatus()).data).toMatchObject({ status: 'not_queued', position: null });
    expectProblem(await arrive(service.url, 'no-such-product').queueStatus(), 404, 'campaign_not_found');
  });

  test('is not returned for the ticket of another user, another campaign or a forger', async () => {
    const { line } = await openWithLine(2);
    const { line: elsewhere } = await openWithLine(1);
    const [me, neighbour] = line as [Shopper, Shopper];
    expectProblem(await me.queueStatus({ 'x-ticket': String(neighbour.ticket) }), 403, 'forbidden');
    expectProblem(await me.queueStatus({ 'x-ticket': String(elsewhere[0]?.ticket) }), 403, 'forbidden');
    expectProblem(await me.queueStatus({ 'x-ticket': `${me.ticket}x` }), 401, 'ticket_invalid');
  });

  test('may be polled at the advertised pace without a refusal', async () => {
    const { line } = await openWithLine(1);
    // The requests of a client that polls every 100 ms for the ten seconds of the quota's window, all at once.
    const answers = await Promise.all(Array.from({ length: 100 }, () => (line[0] as Shopper).queueStatus()));
    expect(countStatuses(answers)).toEqual({ 200: 100 });
  });

  test('is not given beyond the size of the waiting room', async () => {
    const { product } = await openWithLine(0, { waiting_room: { enabled: true, max_size: 5 } });
    const answers = await checkoutAtOnce(gatherShoppers(service.url, product, 20));
    expect(countStatuses(answers)).toEqual({ 202: 5, 410: 15 });
    for (const refused of answers.filter(({ status }) => status === 410))
      expectProblem(refused, 410, 'waiting_room_full');
    await expectStock(operator, product, { total: 1, held: 1, waiting: 5 });
  });
});

describe('a promotion', () => {
  test('that was sent to a closed socket is found in queue-status and in the welcome of the next one', async () => {
    const { product, held, line } = await openWithLine(1);
    const [shopper] = line as [Shopper];
    const socket = await openSocket(service.url, shopper.ticket);
    expect((await socket.frame('welcome')).status).toBe('queued');
    await socket.hangUp();
    await payments.release(held);

    const { data } = await withTicket(shopper);
    expect(withoutAdvice(data)).toEqual({
      status: 'promoted',
      position: null,
      queue_size: 0,
      reservation_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      order_id: expect.stringMatching(/./),
      pay_before: expect.stringMatching(/Z$/),
    });
    expect(await (await openSocket(service.url, shopper.ticket)).frame('welcome')).toMatchObject(data);
    expect((await payments.confirm(String(data.reservation_id))).data).toEqual({
      reservation_id: data.reservation_id,
      status: 'redeemed',
      order_id: data.order_id,
    });
    expect((await withTicket(shopper)).data).toMatchObject({ status: 'redeemed', reservation_id: data.reservation_id });
    await expectRows(service, product, { redeemed: 1, released: 1 });
  });

  test('that is not paid expires, and the unit goes to the next', async () => {
    const { product, held, line } = await openWithLine(2);
    const [first, second] = line as [Shopper, Shopper];
    await payments.release(held);
    const { data } = await withTicket(first);
    expect(data.status).toBe('promoted');
    await expireNow(service.redis.client, product, String(data.reservation_id));
    await until('the second is promoted', async () => (await statusOf(second)) === 'promoted');
    expect(await statusOf(first)).toBe('expired');
    await expectStock(operator, product, { total: 1, held: 1 });
    await expectRows(service, product, { expired: 1, released: 1, reserved: 1 });
  });

  test('of a campaign without payment redeems at once', async () => {
    const { product, held, line } = await openWithLine(1);
    await operator.call('PATCH', `/admin/campaigns/${product}`, { hold_seconds: 0 });
    await payments.release(held);
    expect((await withTicket(line[0] as Shopper)).data).toMatchObject({ status: 'redeemed', pay_before: null });
    await expectStock(operator, product, { total: 1, redeemed: 1 });
  });
});

describe('leaving the line', () => {
  test('moves the others up, may be repeated, and leads to its end on return', async () => {
    const { product, line } = await openWithLine(3);
    const [first, second, third] = line as [Shopper, Shopper, Shopper];
    for (const _ of [1, 2]) {
      const left = await first.leave();
      expect([left.status, left.data.status]).toEqual([200, 'left']);
    }
    expect(await Promise.all([first, second, third].map(placeOf))).toEqual([null, 1, 2]);
    expect(await statusOf(first)).toBe('left');
    await expectStock(operator, product, { total: 1, held: 1, waiting: 2 });
    expect((await first.checkout()).data).toMatchObject({ status: 'queued', position: 3, queue_size: 3 });
  });

  test('gives a free unit to the one behind when only the leaver stood in its way', async () => {
    const { product, held, line } = await openWithLine(0, { max_qty: 2 });
    const wantsTwo = arrive(service.url, product);
    const wantsOne = arrive(service.url, product);
    expect(line).toEqual([]);
    await wantsTwo.checkout({ qty: 2 });
    await wantsOne.checkout();
    await payments.release(held);
    expect(await placeOf(wantsTwo)).toBe(1);
    await wantsTwo.leave();
    expect(await statusOf(wantsOne)).toBe('promoted');
    await expectStock(operator, product, { total: 1, held: 1 });
  });

  test('racing with a promotion ends in one of the two, and no unit is lost', async () => {
    const { product, held, line } = await openWithLine(2);
    const [leaver, next] = line as [Shopper, Shopper];
    const [left] = await Promise.all([leaver.leave(), payments.release(held)]);
    // Either the user left first, and the unit goes to the next, or was promoted first and has nothing to leave.
    const [leaverIs, nextIs] = await Promise.all([leaver, next].map(statusOf));
    expect([left.status, leaverIs, nextIs].join()).toMatch(/^(200,left,promoted|409,promoted,queued)$/);
    await expectStock(operator, product, { total: 1, held: 1, waiting: leaverIs === 'left' ? 0 : 1 });
  });

  test('needs a genuine ticket', async () => {
    const { product } = await openWithLine(1);
    const leave = (headers: Record<string, string>): Promise<Answer> =>
      send(`${service.url}/flash-sale/queue`, { method: 'DELETE', headers });
    for (const headers of [
      {},
      { 'x-ticket': 't1.1.dXNlcg.AAAAAAAAAAAAAAAAAAAAAA' },
      { 'x-ticket': '' },
      { 'x-ticket': '...' },
    ]) {
      const refused = await leave(headers as Record<string, string>);
      expectProblem(refused, 401, 'ticket_invalid');
      expect(refused.headers.get('www-authenticate')).toMatch(/./);
    }
    await expectStock(operator, product, { total: 1, held: 1, waiting: 1 });
  });
});

describe('new stock', () => {
  test('goes to the line first, and what is left to newcomers', async () => {
    const { product, line } = await openWithLine(3);
    const restocked = await operator.call('POST', `/admin/campaigns/${product}/stock`, { delta: 2 });
    expect([restocked.status, restocked.data.total_limit]).toEqual([200, 3]);
    expect(await Promise.all(line.map(statusOf))).toEqual(['promoted', 'promoted', 'queued']);
    expect((await arrive(service.url, product).checkout()).data).toMatchObject({ status: 'queued', position: 2 });
    await operator.call('POST', `/admin/campaigns/${product}/stock`, { delta: 3 });
    expect((await arrive(service.url, product).checkout()).status).toBe(200);
    await expectStock(operator, product, { total: 6, held: 6 });
    await expectRows(service, product, { reserved: 6 });
  });

  test('for more people than one script call serves reaches them all', async () => {
    const { product, line } = await openWithLine(250);
    await operator.call('POST', `/admin/campaigns/${product}/stock`, { delta: 240 });
    await until('the line is down to ten', async () => (await operator.stats(product)).waiting === 10);
    await expectStock(operator, product, { total: 241, held: 241, waiting: 10 });
    expect(await placeOf(line[240] as Shopper)).toBe(1);
    await expectRows(service, product, { reserved: 241 });
  });
});
