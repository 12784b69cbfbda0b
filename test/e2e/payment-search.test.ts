import { randomUUID } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import type { Browser } from 'playwright-core';
import { PaymentEventsTable } from '../../shared/postgres/payment-events.js';
import { accessibilityFindings, openPhone, startBrowser } from '../harness/browser.js';
import { expectProblem } from '../harness/checks.js';
import { Operator, PaymentService } from '../harness/clients.js';
import { erase } from '../harness/erasure.js';
import { FakeStripe, sendSigned } from '../harness/payment-providers.js';
import { ADMIN_SECRET, sharedService } from '../harness/service.js';
import { arrive } from '../harness/shoppers.js';
import { until } from '../harness/until.js';

/** What payment providers have reported, for operators. */
const service = await sharedService();
const operator = new Operator(service.url);
const payments = new PaymentService(service.url);
const stripe = new FakeStripe(`${service.url}/payments/stripe`);
const browser = await startBrowser();
const inBrowser = browser ? describe : describe.skip;
const LIMIT_MS = 30_000;
const DAY_MS = 86_400_000;

type Row = Record<string, string>;
const find = (query: Record<string, string>) =>
  operator.call('GET', `/admin/payment-events?${new URLSearchParams(query)}`);
const firstOf = async (query: Record<string, string>): Promise<Row> => (await find(query)).data[0];
const outcomesOf = async (query: Record<string, string>) =>
  (await find(query)).data.map(({ outcome }: Record<string, string>) => outcome);
const ref = () => `pi_${randomUUID().slice(0, 8)}`;

async function buy(product: string, user: string) {
  const shopper = arrive(service.url, product, user);
  const { data } = await shopper.checkout();
  return { id: String(data.reservation_id), order: String(data.order_id) };
}
const pay = (id: string, payment: string) =>
  stripe.send(stripe.event('checkout.session.completed', stripe.session({ reservation_id: id }, payment)));
const written = (id: string) =>
  until('it is written', async () => {
    const { data } = await operator.call('GET', `/admin/redemptions?reservation_id=${id}`);
    return data[0]?.written === true;
  });

/** A campaign with a payment that was counted, a second one of the same reservation, and one that came too late. */
async function sell() {
  const product = await operator.openCampaign({ name: 'Midnight', total_limit: 9, hold_seconds: 900 });
  const user = `ann-${randomUUID().slice(0, 8)}`;
  const [paid, ended] = [await buy(product, user), await buy(product, `bob-${user}`)];
  const refs = { first: ref(), second: ref(), late: ref() };
  await pay(paid.id, refs.first);
  await pay(paid.id, refs.second);
  await payments.release(ended.id);
  expect((await pay(ended.id, refs.late)).data.outcome).toBe('late');
  await Promise.all([written(paid.id), written(ended.id)]);
  return { product, user, paid, ended, refs };
}

describe('the search for payments', () => {
  test('finds events by each field, latest first, with the reservation that they are about', async () => {
    const { product, user, paid, ended, refs } = await sell();
    const { data } = await find({ product_id: product });
    expect(data.map(({ outcome, payment_ref }: Record<string, string>) => [outcome, payment_ref])).toEqual([
      ['late', refs.late],
      ['duplicate', refs.second],
      ['confirmed', refs.first],
    ]);
    expect(data[0]).toMatchObject({
      ...{ provider: 'stripe', kind: 'succeeded', partial: false, refunded_at: null, campaign_name: 'Midnight' },
      ...{ reservation_id: ended.id, order_id: ended.order, user_id: `bob-${user}`, status: 'released' },
    });
    expect(await outcomesOf({ product_id: product, needs_action: 'true' })).toEqual(['late', 'duplicate']);
    const found: [Record<string, string>, string[]][] = [
      [{ user_id: user }, ['duplicate', 'confirmed']],
      [{ order_id: ended.order }, ['late']],
      [{ reservation_id: paid.id, outcome: 'duplicate' }, ['duplicate']],
      [{ payment_ref: refs.first }, ['confirmed']],
      [{ payment_ref: refs.first, outcome: 'late' }, []],
      [{ product_id: product, provider: 'midtrans' }, []],
      [{ product_id: product, outcome: 'confirmed', needs_action: 'true' }, []],
      [{ product_id: product, to: '2020-01-01T00:00:00Z' }, []],
      [{ product_id: product, from: '2020-01-01T00:00:00Z', outcome: 'late' }, ['late']],
      [{ user_id: user, reservation_id: ended.id }, []],
      [{ user_id: 'no-such-user' }, []],
      [{ reservation_id: 'no id' }, []],
    ];
    for (const [query, outcomes] of found) expect([query, await outcomesOf(query)]).toEqual([query, outcomes]);
    expect((await find({ product_id: 'no-such-product' })).status).toBe(404);
  });

  test('keeps an event of an unknown reservation, and shows when a late payment was returned', async () => {
    const { product, refs } = await sell();
    const nowhere = ref();
    await sendSigned(service.url, 'payment.succeeded', { reservation_id: randomUUID(), payment_ref: nowhere });
    const event = await firstOf({ payment_ref: nowhere });
    expect(event).toMatchObject({ outcome: 'unknown', reservation_id: null, product_id: null, user_id: null });
    await stripe.send(stripe.event('charge.refunded', stripe.charge({}, refs.late)));
    const late = await firstOf({ product_id: product, outcome: 'late' });
    expect(Date.parse(String(late.refunded_at))).toBeGreaterThanOrEqual(Date.parse(String(late.received_at)));
  });

  test('lists a payment that needs an action once, until it was refunded, and no attempt without money', async () => {
    const product = await operator.openCampaign({ total_limit: 9, hold_seconds: 900 });
    const { id } = await buy(product, `cy-${randomUUID()}`);
    await payments.release(id);
    const [late, lost, refundedLate] = [ref(), ref(), ref()];
    const order_id = `cart-${randomUUID()}`;
    const report = (type: string, object: Record<string, unknown>) => stripe.send(stripe.event(type, object));
    for (const [metadata, payment] of [
      [{ reservation_id: id }, late],
      [{ reservation_id: id }, refundedLate],
      [{ order_id }, lost],
    ] as const) {
      await report('checkout.session.completed', stripe.session(metadata, payment));
      await report('payment_intent.succeeded', stripe.intent(metadata, payment));
      await report('payment_intent.payment_failed', stripe.intent({ order_id: randomUUID() }, payment));
      await report('checkout.session.expired', stripe.session({ order_id: randomUUID() }, payment));
    }
    await report('charge.refunded', stripe.charge({}, refundedLate));
    const listed = async (payment: string) => outcomesOf({ payment_ref: payment, needs_action: 'true' });
    expect(await Promise.all([late, refundedLate, lost].map(listed))).toEqual([['late'], [], ['unknown']]);
    expect(await outcomesOf({ payment_ref: late, outcome: 'late' })).toEqual(['late', 'late']);
    // A refund before its payment is on the list, although the money is back.
    const before = ref();
    const other = await buy(product, `di-${randomUUID()}`);
    await report('charge.refunded', stripe.charge({ reservation_id: other.id }, before));
    await report('checkout.session.completed', stripe.session({ reservation_id: other.id }, before));
    expect(await listed(before)).toEqual(['refunded_before']);
  });

  test('leaves out what an operator has settled, with the other events of the payment, and the audit log says why', async () => {
    const { product, ended, refs } = await sell();
    const events = (await find({ payment_ref: refs.late })).data;
    await stripe.send(stripe.event('payment_intent.succeeded', stripe.intent({ reservation_id: ended.id }, refs.late)));
    const open = () => outcomesOf({ product_id: product, needs_action: 'true' });
    expect(await open()).toEqual(['late', 'duplicate']);
    const settle = (event_id: string) =>
      operator.call('POST', '/admin/payment-events/settle', {
        provider: 'stripe',
        event_id,
        reason: 'paid back by hand',
      });
    const [first, again] = [await settle(events[0].event_id), await settle(events[0].event_id)];
    expect([first.status, again.status, again.data]).toEqual([200, 200, first.data]);
    expect(await open()).toEqual(['duplicate']);
    const both = (await find({ payment_ref: refs.late })).data;
    expect(both.map(({ settled_at }: Row) => settled_at)).toEqual(Array(2).fill(first.data.settled_at));
    const { data } = await operator.call('GET', `/admin/audit?reservation_id=${ended.id}`);
    expect(data.filter(({ action }: Row) => action === 'payment.settle')).toMatchObject([
      {
        actor: 'tester',
        campaign: { product_id: product },
        before: { outcome: 'late' },
        after: { reason: 'paid back by hand' },
      },
    ]);
    expectProblem(await settle('evt_unknown'), 404, 'payment_event_not_found');
  });

  test('keeps what needs an action until it is settled, however old, and nothing else', async () => {
    const { refs } = await sell();
    const [lost, nameless] = [ref(), ref()];
    await sendSigned(service.url, 'payment.succeeded', { order_id: randomUUID(), payment_ref: lost });
    await sendSigned(service.url, 'payment.refunded', { payment_ref: nameless });
    const all = [...Object.values(refs), lost, nameless];
    const kept = async () => {
      const sql = 'select distinct payment_ref as ref from payment_events where payment_ref = any($1)';
      const { rows } = await service.database.client.query(sql, [all]);
      return rows.map(({ ref: one }) => one).sort();
    };
    const age = (days: number) =>
      service.database.client.query(
        "update payment_events set received_at = now() - $2 * interval '1 day' where payment_ref = any($1)",
        [all, days],
      );
    const table = new PaymentEventsTable(service.database.client as never);
    const prune = () => table.prune(90 * DAY_MS, 7 * DAY_MS, ['late', 'duplicate', 'unknown'], 1_000);
    await age(8);
    await prune();
    expect(await kept()).toEqual(all.filter((one) => one !== nameless).sort());
    await age(91);
    await prune();
    expect(await kept()).toEqual([refs.second, refs.late, lost].sort());
    for (const one of [refs.second, lost]) await stripe.send(stripe.event('charge.refunded', stripe.charge({}, one)));
    await sendSigned(service.url, 'payment.refunded', { payment_ref: lost });
    const { event_id } = await firstOf({ payment_ref: refs.late });
    await operator.call('POST', '/admin/payment-events/settle', { provider: 'stripe', event_id });
    await age(91);
    await prune();
    expect(await kept()).toEqual([]);
  });

  test('pages through all events once, and refuses a cursor that it has not made', async () => {
    const { product } = await sell();
    const all = (await find({ product_id: product })).data;
    expect(all).toHaveLength(3);
    const paged: unknown[] = [];
    let cursor: string | null = null;
    do {
      const page = await find({ product_id: product, limit: '1', ...(cursor ? { cursor } : {}) });
      paged.push(...(page.data as unknown as Row[]));
      cursor = page.body.next_cursor as string | null;
    } while (cursor !== null);
    expect(paged).toEqual(all);
    const made = (parts: unknown) => Buffer.from(JSON.stringify(parts)).toString('base64url');
    for (const wrong of [
      'x',
      made(['1']),
      made(['now', 'stripe', 'e', null]),
      made(['1', 'stripe', 'a\0b', null]),
      made({}),
    ])
      expectProblem(await find({ cursor: wrong }), 400, 'invalid_request');
    expect((await find({ cursor: made(['1', 'stripe', 'evt_1', null]) })).data).toEqual([]);
  });

  test('is a part of the export of a user, and keeps no id of an erased one', async () => {
    const { user, paid, refs } = await sell();
    const exported = await operator.call('GET', `/admin/users/${user}/export`);
    const { payment_events } = JSON.parse(exported.text);
    expect(payment_events.map(({ payment_ref }: Record<string, string>) => payment_ref).sort()).toEqual(
      [refs.first, refs.second].sort(),
    );
    await erase(operator, user);
    expect((await find({ user_id: user })).data).toEqual([]);
    const event = await firstOf({ reservation_id: paid.id });
    expect(event.user_id).toMatch(/^erased-/);
  });
});

inBrowser('the page of payments', () => {
  async function openLoggedIn(hash: string, viewport = { width: 1280, height: 800 }) {
    const opened = await openPhone(browser as Browser, { viewport });
    await opened.page.goto(`${service.url}/admin${hash}`);
    await opened.page.getByLabel('Admin key').fill(ADMIN_SECRET);
    await opened.page.keyboard.press('Enter');
    await opened.page.locator('h1').waitFor({ timeout: LIMIT_MS });
    return opened;
  }

  test('leads from a campaign to the payment that has to be refunded, and to its reservation', async () => {
    const { product, user, ended, refs } = await sell();
    const { page, faults } = await openLoggedIn(`#/campaigns/${product}`);
    const card = page.getByRole('region', { name: 'Payments', exact: true });
    await card.getByText('Paid too late: refund it').waitFor({ timeout: LIMIT_MS });
    await card.getByRole('link', { name: 'Payments that need an action' }).click();
    const row = page.getByRole('row', { name: new RegExp(refs.late) });
    await row.getByText('Paid too late: refund it').waitFor({ timeout: LIMIT_MS });
    expect(await page.getByRole('row', { name: new RegExp(refs.first) }).count()).toBe(0);
    await row.getByText('Reservation: released').waitFor();
    await row.getByRole('link', { name: ended.order }).click();
    await page.getByRole('link', { name: `bob-${user}` }).waitFor({ timeout: LIMIT_MS });
    await page.goto(`${service.url}/admin#/people/${user}`);
    await page.getByRole('link', { name: 'Payments', exact: true }).and(page.locator('.button')).click();
    await page.getByRole('row', { name: new RegExp(refs.first) }).waitFor({ timeout: LIMIT_MS });
    expect(await page.getByRole('row', { name: new RegExp(refs.late) }).count()).toBe(0);
    await page.getByLabel('Show').selectOption('Paid too late: refund it');
    await page.getByRole('button', { name: 'Show', exact: true }).click();
    await page.getByText('No provider has reported such a payment.').waitFor({ timeout: LIMIT_MS });
    expect(faults).toEqual([]);
  });

  test('marks a payment as settled, with a reason, and then shows it so', async () => {
    const { product, refs } = await sell();
    const { page, faults } = await openLoggedIn(`#/payments?product_id=${product}`);
    const row = page.getByRole('row', { name: new RegExp(refs.late) });
    await row.getByRole('button', { name: 'Settle' }).click({ timeout: LIMIT_MS });
    await page.getByLabel('Reason').fill('paid back by hand');
    await page.getByRole('dialog').getByRole('button', { name: 'Settle' }).click();
    await row.waitFor({ state: 'detached', timeout: LIMIT_MS });
    await page.goto(`${service.url}/admin#/payments?product_id=${product}&outcome=late`);
    await row.getByText('Paid too late, and settled by an operator').waitFor({ timeout: LIMIT_MS });
    expect(await row.getByRole('button').count()).toBe(0);
    expect(faults).toEqual([]);
  });

  test('has an open payment on the card of its campaign behind later ones that were refunded', async () => {
    const { product, ended, refs } = await sell();
    for (let i = 0; i < 6; i += 1) {
      const payment = ref();
      expect((await pay(ended.id, payment)).data.outcome).toBe('late');
      await stripe.send(stripe.event('charge.refunded', stripe.charge({}, payment)));
    }
    const { page } = await openLoggedIn(`#/campaigns/${product}`);
    const card = page.getByRole('region', { name: 'Payments', exact: true });
    await card.getByText(refs.late).waitFor({ timeout: LIMIT_MS });
    expect(await card.getByRole('listitem').count()).toBe(2);
  });

  test.each([
    { width: 1280, height: 800 },
    { width: 360, height: 740 },
  ])('meets no barrier that axe finds, and no sideways scrolling: $width', async (viewport) => {
    const { product } = await sell();
    const { page } = await openLoggedIn(`#/payments?product_id=${product}&outcome=all`, viewport);
    await page.getByText('Paid too late: refund it').first().waitFor({ timeout: LIMIT_MS, state: 'attached' });
    await page.getByRole('table').waitFor({ timeout: LIMIT_MS });
    expect(await accessibilityFindings(page)).toEqual([]);
    expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true);
  });
});
