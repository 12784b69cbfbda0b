import { randomUUID } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { expectProblem } from '../harness/checks.js';
import { type Answer, Operator, PaymentService, send } from '../harness/clients.js';
import { startReceiver } from '../harness/receiver.js';
import { SERVICE_SECRET, sharedService, startWorkerProcess } from '../harness/service.js';
import { arrive, checkoutInTurn } from '../harness/shoppers.js';
import { until } from '../harness/until.js';

/** Finding a user, an order or a payment, and helping them. */
const service = await sharedService();
const operator = new Operator(service.url);
const payments = new PaymentService(service.url);
const search = (query: Record<string, string>): Promise<Answer> =>
  operator.call('GET', `/admin/redemptions?${new URLSearchParams(query)}`);
const idsOf = ({ data }: Answer): string[] => data.map(({ redemption_id }: Record<string, string>) => redemption_id);
const asService = (path: string) =>
  send(`${service.url}${path}`, { headers: { authorization: `Bearer ${SERVICE_SECRET}` } });
const person = async (user: string) => (await operator.call('GET', `/admin/users/${user}/timeline`)).data;
const kindsOf = (timeline: Record<string, string>[]) => timeline.map(({ kind }) => kind).reverse();

/** Waits until Postgres has a reservation as it is decided. */
const written = (reservation: string) =>
  until('it is written', async () => {
    const { data } = await search({ reservation_id: reservation });
    return data[0]?.written === true && data[0];
  });

describe('the search for redemptions', () => {
  test('finds a redemption by each field, and nothing by a field that does not fit', async () => {
    const product = await operator.openCampaign({ total_limit: 9, hold_seconds: 900, name: 'Midnight' });
    const [bought] = await checkoutInTurn([arrive(service.url, product), arrive(service.url, product)]);
    const { reservation_id: id, order_id } = bought?.data ?? {};
    await payments.confirm(String(id), 'pay-find-1');
    await payments.confirm(String(id), 'pay-find-2');
    const row = await written(String(id));
    expect(row).toMatchObject({
      product_id: product,
      campaign_name: 'Midnight',
      order_id,
      status: 'redeemed',
      payment_ref: 'pay-find-1',
      waited: false,
    });
    await until('the second payment is written', async () => idsOf(await search({ payment_ref: 'pay-find-2' })).length);
    const fields = {
      user_id: row.user_id,
      order_id: String(order_id),
      payment_ref: 'pay-find-1',
      reservation_id: String(id),
    };
    for (const [name, value] of Object.entries(fields)) {
      expect([name, idsOf(await search({ [name]: value }))]).toEqual([name, [id]]);
      expect([name, idsOf(await search({ [name]: value, product_id: product, status: 'redeemed' }))]).toEqual([
        name,
        [id],
      ]);
      expect([name, idsOf(await search({ [name]: value, status: 'released' }))]).toEqual([name, []]);
      expect([name, idsOf(await search({ [name]: value, to: '2020-01-01T00:00:00Z' }))]).toEqual([name, []]);
      expect([name, idsOf(await search({ [name]: value, from: '2020-01-01T00:00:00Z' }))]).toEqual([name, [id]]);
    }
    expect(idsOf(await search({ payment_ref: 'pay-find-2' }))).toEqual([id]);
    expect(idsOf(await search({ payment_ref: 'pay-find-2', user_id: 'another' }))).toEqual([]);
    expect(idsOf(await search({ reservation_id: randomUUID() }))).toEqual([]);
    expect(idsOf(await search({ product_id: product, status: 'redeemed' }))).toEqual([id]);
  });

  test('finds a redemption by the code and the order id that a shopper chose', async () => {
    const product = await operator.openCampaign({ type: 'unique', total_limit: 5, require_attestation: false });
    const imported = await send(`${service.url}/admin/campaigns/${product}/codes`, {
      method: 'POST',
      headers: { authorization: 'Bearer admin-secret-of-the-tests', 'content-type': 'text/csv' },
      body: 'FIND-ME-1\nFIND-ME-2\n',
    });
    expect(imported.status).toBe(202);
    const job = String(imported.headers.get('location'));
    await until('the codes are there', async () => (await operator.call('GET', job)).data.status === 'done');
    const redeemed = await send(`${service.url}/coupons/redeem`, {
      method: 'POST',
      headers: { 'idempotency-key': randomUUID() },
      json: { code: 'find-me-1', user_id: 'ann-coupon', order_id: 'basket-77' },
    });
    expect(redeemed.status).toBe(201);
    await written(redeemed.data.reservation_id);
    const id = [redeemed.data.reservation_id];
    expect(idsOf(await search({ code: 'findme1' }))).toEqual(id);
    expect(idsOf(await search({ code: 'FIND ME 1', user_id: 'ann-coupon' }))).toEqual(id);
    expect(idsOf(await search({ code: 'FINDME2' }))).toEqual([]);
    expect(idsOf(await search({ code: 'never-issued' }))).toEqual([]);
    expect(idsOf(await search({ order_id: 'basket-77' }))).toEqual(id);
    expect((await search({ code: 'findme1' })).data[0].code).toBe('FINDME1');
    const { timeline } = await until('the attempt is written', async () => {
      const found = await person('ann-coupon');
      return kindsOf(found.timeline).includes('attempt') && found;
    });
    expect(timeline.find(({ kind }: { kind: string }) => kind === 'attempt')).toMatchObject({
      detail: 'redeem: redeemed',
      product_id: product,
      reservation_id: id[0],
    });
    expect((await asService('/flash-sale/reservations?order_id=basket-77')).data[0].reservation_id).toBe(id[0]);
  });

  test('comes in pages over all campaigns, newest first, each redemption once', async () => {
    const user = `pages-${randomUUID()}`;
    const ids: string[] = [];
    for (let i = 0; i < 5; i += 1) {
      const product = await operator.openCampaign({ total_limit: 1 });
      ids.unshift(String((await arrive(service.url, product, user).checkout()).data.reservation_id));
    }
    await written(String(ids[0]));
    const seen: string[] = [];
    let cursor: unknown;
    do {
      const page = await search({ user_id: user, limit: '2', ...(cursor ? { cursor: String(cursor) } : {}) });
      seen.push(...idsOf(page));
      cursor = page.body.next_cursor;
    } while (cursor);
    expect(seen).toEqual(ids);
  });

  test('finds the newest of all campaigns by state and time alone', async () => {
    const product = await operator.openCampaign({ total_limit: 2, hold_seconds: 900 });
    const id = String((await arrive(service.url, product).checkout()).data.reservation_id);
    const { reserved_at } = await written(id);
    const later = new Date(Date.parse(reserved_at) + 1).toISOString();
    for (const query of [{ status: 'reserved' }, { from: reserved_at }, { status: 'reserved', to: later }])
      expect(idsOf(await search({ ...query, limit: '1' }))).toEqual([id]);
    expect(idsOf(await search({ to: reserved_at }))).not.toContain(id);
    expect(idsOf(await search({ from: later }))).toEqual([]);
  });

  test('needs a field that selects something, and names a wrong one', async () => {
    for (const query of ['', '?user_id=a&limit=0', '?user_id=%00'])
      expectProblem(await operator.call('GET', `/admin/redemptions${query}`), 400, 'invalid_request');
    expectProblem(await search({ user: 'ann' }), 400, 'unknown_field');
    expectProblem(await search({ product_id: 'no-such-sale' }), 404, 'campaign_not_found');
    expectProblem(await send(`${service.url}/admin/redemptions?user_id=a`), 401, 'unauthorized');
  });
});

describe('a promise that is not written yet', () => {
  test('is found by user, reservation and order, with its place in line, and says so', async () => {
    const product = await operator.openCampaign({ total_limit: 1, hold_seconds: 900, waiting_room: { enabled: true } });
    await service.worker.stop();
    const ann = arrive(service.url, product);
    const { reservation_id, order_id } = (await ann.checkout()).data;
    const bob = arrive(service.url, product);
    await bob.checkout();
    for (const query of [{ user_id: ann.user }, { reservation_id }, { order_id }]) {
      const found = await search(query);
      expect(found.data).toMatchObject([
        { redemption_id: reservation_id, order_id, status: 'reserved', written: false },
      ]);
      expect(found.body.complete).toBe(true);
    }
    expect((await search({ user_id: ann.user, status: 'released' })).data).toEqual([]);
    expect((await search({ user_id: bob.user })).body.places).toMatchObject([
      { product_id: product, status: 'waiting', position: 1, line_no: null },
    ]);
    expect((await asService(`/flash-sale/reservations/${reservation_id}`)).data).toMatchObject({
      user_id: ann.user,
      status: 'reserved',
      written: false,
    });
    await payments.confirm(reservation_id, 'pay-fresh');
    expect((await asService(`/flash-sale/reservations?order_id=${order_id}`)).data[0]).toMatchObject({
      reservation_id,
      status: 'redeemed',
    });
    service.worker = await startWorkerProcess(service.env);
    expect(await written(reservation_id)).toMatchObject({ status: 'redeemed', payment_ref: 'pay-fresh' });
    expect((await search({ user_id: bob.user })).body.places).toMatchObject([{ position: 1 }]);
  });

  test('and of which its user has several, is reported as not complete until all are written', async () => {
    const terms = { total_limit: 9, hold_seconds: 900, per_user_limit: 3 };
    const product = await operator.openCampaign(terms);
    const ann = arrive(service.url, product);
    const completeFor = async (user: string) => [
      (await search({ user_id: user })).body.complete,
      (await search({ user_id: user, product_id: product })).body.complete,
      (await person(user)).complete,
      JSON.parse((await operator.call('GET', `/admin/users/${user}/export`)).text).live.complete,
    ];
    const first = (await ann.checkout()).data;
    await written(first.reservation_id);
    await service.worker.stop();
    await ann.checkout();
    // Of one promise that Postgres lacks, Redis has the id.
    expect(await completeFor(ann.user)).toEqual([true, true, true, true]);
    const last = String((await ann.checkout()).data.reservation_id);
    expect(await completeFor(ann.user)).toEqual([false, false, false, false]);
    expect(idsOf(await search({ user_id: ann.user }))).toEqual([last, first.reservation_id]);
    const bob = arrive(service.url, product);
    expect(await completeFor(bob.user)).toEqual([true, true, true, true]);
    // The states of what was found are those in force.
    const order = `/flash-sale/reservations?order_id=${first.order_id}&user_id=${ann.user}`;
    expect((await asService(order)).data).toMatchObject([{ reservation_id: first.reservation_id }]);
    service.worker = await startWorkerProcess(service.env);
    await written(last);
    expect(await completeFor(ann.user)).toEqual([true, true, true, true]);
    await payments.release(first.reservation_id);
    expect(await completeFor(ann.user)).toEqual([true, true, true, true]);
  });

  test('that does not exist is 404 to a service, and other keys may not read it', async () => {
    expectProblem(await asService(`/flash-sale/reservations/${randomUUID()}`), 404, 'reservation_not_found');
    expectProblem(await asService('/flash-sale/reservations/nonsense'), 404, 'reservation_not_found');
    expect((await asService('/flash-sale/reservations?order_id=none-such')).data).toEqual([]);
    expectProblem(await asService('/flash-sale/reservations?order=1'), 400, 'unknown_field');
    expectProblem(await operator.call('GET', `/flash-sale/reservations/${randomUUID()}`), 403, 'forbidden');
  });
});

describe('an operator who helps a user', () => {
  const act = (reservation: string, action: string, json: unknown = {}) =>
    operator.call('POST', `/admin/reservations/${reservation}/${action}`, json);
  const entriesAbout = async (reservation: string) =>
    (
      await service.database.client.query(
        "select action, actor, after from audit_log where after ->> 'reservation_id' = $1 order by audit_id",
        [reservation],
      )
    ).rows;

  test('releases a reservation, which promotes the next user, and sees it in the timeline', async () => {
    const product = await operator.openCampaign({ total_limit: 1, hold_seconds: 900, waiting_room: { enabled: true } });
    const [ann, bob] = [arrive(service.url, product), arrive(service.url, product)];
    const { reservation_id } = (await ann.checkout()).data;
    await bob.checkout();
    const released = await act(reservation_id, 'release', { reason: 'asked by mail' });
    expect(released.data).toEqual({ reservation_id, status: 'released' });
    expect((await act(reservation_id, 'release')).status).toBe(200);
    expect((await bob.queueStatus()).data.status).toBe('promoted');
    await written(reservation_id);
    const { timeline, redemptions } = await person(ann.user);
    expect(redemptions).toMatchObject([{ status: 'released', reason: 'asked by mail' }]);
    expect(kindsOf(timeline)).toEqual(['reserved', 'operator', 'released', 'operator']);
    expect(timeline.find(({ kind }: { kind: string }) => kind === 'operator')).toMatchObject({
      by: 'tester',
      reservation_id,
      product_id: product,
    });
    const ofBob = await until('the promotion is written', async () => {
      const found = await person(bob.user);
      return found.redemptions[0]?.written && found;
    });
    expect(kindsOf(ofBob.timeline)).toEqual(expect.arrayContaining(['joined', 'promoted']));
  });

  test('refunds what was paid, and not what was not', async () => {
    const product = await operator.openCampaign({ total_limit: 2, hold_seconds: 900 });
    const { reservation_id } = (await arrive(service.url, product).checkout()).data;
    expectProblem(await act(reservation_id, 'refund'), 409, 'reservation_not_redeemed');
    await payments.confirm(reservation_id, 'pay-refund');
    expectProblem(await act(reservation_id, 'release'), 409, 'reservation_redeemed');
    expect((await act(reservation_id, 'refund', { reason: 'broken' })).data).toEqual({
      reservation_id,
      status: 'refunded',
      returned_to_stock: true,
    });
    expectProblem(await act(reservation_id, 'release'), 409, 'reservation_refunded');
    expect(await entriesAbout(reservation_id)).toMatchObject([
      { action: 'reservation.refund', actor: 'tester', after: { reason: 'broken' } },
    ]);
  });

  test('leaves entries that have what was decided, and that a repetition changed nothing', async () => {
    const product = await operator.openCampaign({ total_limit: 9, max_qty: 4, hold_seconds: 900 });
    const shopper = arrive(service.url, product);
    const { reservation_id } = (await shopper.checkout({ qty: 4 })).data;
    const of = { user_id: shopper.user, reservation_id };
    const kept = { ...of, keep: 3, status: 'reserved', qty: 3, released_qty: 1 };
    for (let i = 0; i < 2; i += 1) await act(reservation_id, 'release', { keep: 3 });
    await payments.confirm(reservation_id, 'pay-decided');
    for (let i = 0; i < 2; i += 1) await act(reservation_id, 'refund', { reason: 'broken' });
    const refunded = { ...of, reason: 'broken', status: 'refunded', returned_to_stock: true };
    expect((await entriesAbout(reservation_id)).map(({ after }) => after)).toEqual([
      kept,
      { ...kept, unchanged: true },
      refunded,
      { ...refunded, unchanged: true },
    ]);
  });

  test('removes a user from the line; those behind move up', async () => {
    const product = await operator.openCampaign({ total_limit: 1, hold_seconds: 900, waiting_room: { enabled: true } });
    const [ann, bob, eve] = [0, 1, 2].map(() => arrive(service.url, product));
    await checkoutInTurn([ann as never, bob as never, eve as never]);
    const remove = (user: string) =>
      operator.call('POST', `/admin/campaigns/${product}/line/remove`, { user_id: user, reason: 'bot' });
    expect((await remove(String(bob?.user))).data).toEqual({ status: 'left' });
    const entries = async () => {
      const { data } = await operator.call('GET', `/admin/audit?product_id=${product}&action=line.remove`);
      return (data as unknown as { actor: string; after: object }[]).map(({ actor, after }) => ({ actor, ...after }));
    };
    const removed = { actor: 'tester', user_id: bob?.user, reason: 'bot' };
    await until('the entry is written', async () => (await entries()).length === 1);
    expect((await remove(String(bob?.user))).status).toBe(200);
    expect(await entries()).toEqual([{ ...removed, unchanged: true }, removed]);
    expect((await eve?.queueStatus())?.data.position).toBe(1);
    expect((await bob?.queueStatus())?.data.status).toBe('left');
    expectProblem(await remove(String(ann?.user)), 409, 'not_waiting');
    expectProblem(
      await operator.call('POST', '/admin/campaigns/none/line/remove', { user_id: 'a' }),
      404,
      'campaign_not_found',
    );
    const { timeline } = await person(String(bob?.user));
    expect(timeline.filter(({ kind }: { kind: string }) => kind === 'operator')[0]).toMatchObject({
      by: 'tester',
      detail: 'line.remove: bot',
    });
  });

  test('sends the events of a reservation again, to the endpoints that had them', async () => {
    const receiver = await startReceiver();
    const endpoint = (await operator.call('POST', '/admin/webhooks', { url: receiver.url })).data.id;
    const terms = { total_limit: 3, max_qty: 3, hold_seconds: 900, extend_seconds: 120 };
    const product = await operator.openCampaign(terms);
    const shopper = arrive(service.url, product);
    const { reservation_id } = (await shopper.checkout({ qty: 3 })).data;
    expect((await payments.say('extend', { reservation_id })).status).toBe(200);
    expect((await payments.say('release', { reservation_id, keep: 2 })).status).toBe(200);
    await payments.confirm(reservation_id, 'pay-events');
    await payments.confirm(reservation_id, 'pay-again');
    const own = () => receiver.received.filter(({ text }) => text.includes(reservation_id));
    const typesOf = (events: { type: string }[]) => events.map(({ type }) => type.split('.').slice(3, -1).join('.'));
    const all = ['reserved', 'extended', 'reduced', 'redeemed', 'duplicated'];
    await until('all events came', () => own().length === all.length);
    expect(typesOf(own().map(({ event }) => event as { type: string }))).toEqual(all);
    await until(
      'their delivery is recorded',
      async () => (await operator.call('GET', `/admin/webhooks/${endpoint}`)).data.deliveries.backlog === 0,
    );
    const sent = await act(reservation_id, 'resend');
    expect(sent.data).toEqual({ reservation_id, events: all.length, endpoints: 1 });
    await until('they came again', () => own().length === 2 * all.length);
    const ids = own().map(({ headers }) => headers['webhook-id']);
    expect(new Set(ids).size).toBe(all.length);
    const exported = await operator.call('GET', `/admin/users/${shopper.user}/export`);
    expect(typesOf(JSON.parse(exported.text).events)).toEqual(all);
    // An endpoint for other campaigns had none of them.
    const another = await operator.openCampaign({ total_limit: 1 });
    expect((await operator.call('PATCH', `/admin/webhooks/${endpoint}`, { campaigns: [another] })).status).toBe(200);
    expectProblem(await act(reservation_id, 'resend'), 404, 'event_not_found');
  });

  test('gets 404 for a reservation that does not exist, and 400 for an unknown field', async () => {
    for (const action of ['release', 'refund', 'resend']) {
      expectProblem(await act(randomUUID(), action), 404, 'reservation_not_found');
      expectProblem(await act(randomUUID(), action, { why: 'x' }), 400, 'unknown_field');
    }
    expect(await person('never-seen')).toEqual({
      user_id: 'never-seen',
      redemptions: [],
      places: [],
      timeline: [],
      truncated: false,
      complete: true,
    });
  });
});
