import { randomUUID } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import { PaymentEventsTable } from '../../shared/postgres/payment-events.js';
import { expectProblem } from '../harness/checks.js';
import { Operator, PaymentService, send } from '../harness/clients.js';
import { FakeStripe, sendMidtrans, sendSigned } from '../harness/payment-providers.js';
import { sharedService, startApiProcess } from '../harness/service.js';
import { arrive } from '../harness/shoppers.js';
import { until } from '../harness/until.js';
import { untilWhole } from '../harness/verdict.js';

const service = await sharedService();
const operator = new Operator(service.url);
const payments = new PaymentService(service.url);
const stripe = new FakeStripe(`${service.url}/payments/stripe`);
const ref = () => `pi_${randomUUID().slice(0, 8)}`;

async function buy(terms: Record<string, unknown> = {}) {
  const product = await operator.openCampaign({ total_limit: 3, hold_seconds: 900, ...terms });
  const shopper = arrive(service.url, product);
  const { data } = await shopper.checkout();
  const id = String(data.reservation_id);
  return { product, shopper, id, order: String(data.order_id), metadata: { reservation_id: id } };
}
type Bought = Awaited<ReturnType<typeof buy>>;

const standing = async ({ shopper }: Bought) =>
  (await shopper.queueStatus({ 'x-ticket': String(shopper.ticket) })).data.status;
const completed = ({ metadata }: Bought, payment: string) =>
  stripe.event('checkout.session.completed', stripe.session(metadata, payment));
const refunded = ({ metadata }: Bought, payment: string) =>
  stripe.event('charge.refunded', stripe.charge(metadata, payment));
async function outcome(event: Record<string, unknown>): Promise<unknown> {
  const { status, data, text } = await stripe.send(event);
  expect([status, text]).toEqual([200, text]);
  return data.outcome;
}
const eventsOf = async (id: string, type: string) => {
  const { rows } = await service.database.client.query(
    'select data from outbox_events where subject = $1 and type = $2 order by seq',
    [id, `dev.doorbuster.${type}.v1`],
  );
  return rows.map(({ data }) => data);
};
/** The ledger finds no difference, and units by state are these. */
async function expectUnits(product: string, units: Record<string, number>): Promise<void> {
  await untilWhole(service.env, product);
  expect(await operator.stats(product)).toMatchObject(units);
}

describe('a webhook of Stripe', () => {
  it('confirms a paid session, and does so once, however often it is sent', async () => {
    const bought = await buy();
    const event = completed(bought, ref());
    expect((await stripe.send(event)).data).toEqual({ outcome: 'confirmed', repeated: false });
    const again = await Promise.all([stripe.send(event), stripe.send(event), stripe.send(event)]);
    for (const { status, data } of again)
      expect([status, data]).toEqual([200, { outcome: 'confirmed', repeated: true }]);
    expect(await standing(bought)).toBe('redeemed');
    await expectUnits(bought.product, { redeemed: 1, held: 0, free: 2 });
    expect(await eventsOf(bought.id, 'redemption.redeemed')).toHaveLength(1);
  });

  it('finds the reservation by order, and by client_reference_id', async () => {
    const one = await buy();
    const byOrder = stripe.session({ order_id: one.order, product_id: one.product }, ref());
    expect(await outcome(stripe.event('checkout.session.completed', byOrder))).toBe('confirmed');
    const two = await buy();
    const byReference = stripe.session({}, ref(), { client_reference_id: two.id });
    expect(await outcome(stripe.event('checkout.session.completed', byReference))).toBe('confirmed');
  });

  it('finds the reservation beside a number that the shop itself has for the order', async () => {
    const [bought, payment] = [await buy(), ref()];
    const metadata = { order_id: `shop-${randomUUID()}` };
    const early = stripe.event('payment_intent.succeeded', stripe.intent(metadata, payment));
    expect((await stripe.send(early)).data).toEqual({ outcome: 'unknown', repeated: false });
    const session = stripe.session(metadata, payment, { client_reference_id: bought.id });
    expect(await outcome(stripe.event('checkout.session.completed', session))).toBe('confirmed');
    // The PaymentIntent and the charge have the metadata of the shop alone.
    for (const event of [early, stripe.event('payment_intent.succeeded', stripe.intent(metadata, payment))])
      expect(await outcome(event)).toBe('repeated');
    expect(await outcome(stripe.event('charge.refunded', stripe.charge(metadata, payment)))).toBe('refunded');
    await expectUnits(bought.product, { redeemed: 0, held: 0, free: 3 });
  });

  it('waits for the money of a delayed payment method', async () => {
    const bought = await buy();
    const session = (more = {}) => stripe.session(bought.metadata, 'pi_delayed', more);
    const unpaid = stripe.event('checkout.session.completed', session({ payment_status: 'unpaid' }));
    expect(await outcome(unpaid)).toBe('ignored');
    expect(await standing(bought)).toBe('completed');
    expect(await outcome(stripe.event('checkout.session.async_payment_succeeded', session()))).toBe('confirmed');
    const failed = await buy();
    const event = stripe.event('checkout.session.async_payment_failed', stripe.session(failed.metadata, ref()));
    expect(await outcome(event)).toBe('released');
    await expectUnits(failed.product, { held: 0, free: 3 });
  });

  it('releases the unit of an expired session for the next in line, and never one that is paid', async () => {
    const bought = await buy({ total_limit: 1, waiting_room: { enabled: true } });
    const next = arrive(service.url, bought.product);
    expect((await next.checkout()).status).toBe(202);
    const expired = () =>
      stripe.event('checkout.session.expired', stripe.session(bought.metadata, '', { payment_intent: null }));
    expect(await outcome(expired())).toBe('released');
    expect((await next.queueStatus({ 'x-ticket': String(next.ticket) })).data.status).toBe('promoted');
    const paid = await buy();
    await payments.confirm(paid.id, 'pay-1');
    const late = stripe.event('checkout.session.expired', stripe.session(paid.metadata, '', { payment_intent: null }));
    expect(await outcome(late)).toBe('settled');
    expect(await standing(paid)).toBe('redeemed');
  });

  it('counts the session and the intent of one payment once, and another payment as a duplicate', async () => {
    const bought = await buy();
    const [first, second] = [ref(), ref()];
    expect(await outcome(completed(bought, first))).toBe('confirmed');
    expect(await outcome(stripe.event('payment_intent.succeeded', stripe.intent(bought.metadata, first)))).toBe(
      'repeated',
    );
    expect(await outcome(completed(bought, second))).toBe('duplicate');
    await until('the event is made', async () => (await eventsOf(bought.id, 'payment.duplicated')).length === 1);
    expect(await outcome(refunded(bought, second))).toBe('still_paid');
    expect(await standing(bought)).toBe('redeemed');
    expect(await outcome(refunded(bought, first))).toBe('refunded');
    await expectUnits(bought.product, { redeemed: 0, held: 0, free: 3 });
    expect(await outcome(refunded(bought, first))).toBe('refunded');
    expect(await outcome(stripe.event('payment_intent.succeeded', stripe.intent(bought.metadata, first)))).toBe(
      'refunded_before',
    );
    await expectUnits(bought.product, { redeemed: 0, held: 0, free: 3 });
    expect(await eventsOf(bought.id, 'payment.late')).toEqual([]);
  });

  it('reports a late payment once, and changes nothing', async () => {
    const bought = await buy();
    await payments.release(bought.id);
    const payment = ref();
    expect(await outcome(completed(bought, payment))).toBe('late');
    expect(await outcome(stripe.event('payment_intent.succeeded', stripe.intent(bought.metadata, payment)))).toBe(
      'late',
    );
    expect(await eventsOf(bought.id, 'payment.late')).toMatchObject([
      { reservation_id: bought.id, order_id: bought.order, payment_ref: payment, provider: 'stripe' },
    ]);
    expect(await outcome(refunded(bought, payment))).toBe('unpaid');
    await expectUnits(bought.product, { redeemed: 0, held: 0, free: 3 });
  });

  it('takes a free unit again for a late payment if the campaign says so', async () => {
    const bought = await buy({ late_payment: 'reacquire' });
    await payments.release(bought.id);
    expect(await outcome(completed(bought, ref()))).toBe('reacquired');
    await expectUnits(bought.product, { redeemed: 1, held: 0, free: 2 });
  });

  it('does not confirm a payment whose refund came first', async () => {
    const bought = await buy();
    const payment = ref();
    expect(await outcome(refunded(bought, payment))).toBe('released');
    expect(await standing(bought)).toBe('released');
    expect(await outcome(completed(bought, payment))).toBe('refunded_before');
    await outcome(stripe.event('payment_intent.succeeded', stripe.intent(bought.metadata, payment)));
    expect(await standing(bought)).toBe('released');
    await expectUnits(bought.product, { redeemed: 0, held: 0, free: 3 });
    expect(await eventsOf(bought.id, 'payment.refunded_before')).toMatchObject([
      { reservation_id: bought.id, order_id: bought.order, payment_ref: payment, provider: 'stripe' },
    ]);
  });

  it('ends refunded when a payment and its refund come at the same time', async () => {
    for (let i = 0; i < 10; i += 1) {
      const bought = await buy();
      const payment = ref();
      const both = [completed(bought, payment), refunded(bought, payment)];
      // A provider repeats what was not accepted.
      const accepted = both.map((event) =>
        until('it is accepted', async () => (await stripe.send(event)).status === 200),
      );
      await Promise.all(accepted);
      expect(await standing(bought)).toBe('released');
      await expectUnits(bought.product, { redeemed: 0, held: 0, free: 3 });
    }
  });

  it('records a declined card, and keeps the unit for the next try', async () => {
    const bought = await buy();
    const payment = ref();
    const declined = stripe.event('payment_intent.payment_failed', stripe.intent(bought.metadata, payment));
    expect(await outcome(declined)).toBe('recorded');
    expect(await standing(bought)).toBe('completed');
    expect(await outcome(completed(bought, payment))).toBe('confirmed');
    expect(await outcome(stripe.event('payment_intent.canceled', stripe.intent(bought.metadata, ref())))).toBe(
      'settled',
    );
  });

  it('finds the reservation of a refund without metadata by its payment', async () => {
    const bought = await buy();
    const payment = ref();
    await outcome(completed(bought, payment));
    expect(await outcome(stripe.event('charge.refunded', stripe.charge({}, payment)))).toBe('refunded');
  });

  it('keeps a refund without metadata until its payment comes, which is not counted then', async () => {
    const [bought, payment, foreign] = [await buy(), ref(), ref()];
    for (const one of [payment, foreign]) {
      const { status, data } = await stripe.send(stripe.event('charge.refunded', stripe.charge({}, one)));
      expect([status, data.outcome]).toEqual([202, 'unknown']);
    }
    expect(await outcome(completed(bought, payment))).toBe('refunded_before');
    expect(await standing(bought)).toBe('released');
    await expectUnits(bought.product, { redeemed: 0, held: 0, free: 3 });
    // A refund of something else has no payment here, so that no worker tries it again.
    const table = new PaymentEventsTable(service.database.client as never);
    const refs = (await table.unknown(1, 1_000, null)).map(({ paymentRef }) => paymentRef);
    expect(refs).not.toContain(foreign);
    await stripe.send(stripe.event('payment_intent.succeeded', stripe.intent({ order_id: randomUUID() }, foreign)));
    expect((await table.unknown(1, 1_000, null)).map(({ paymentRef }) => paymentRef)).toContain(foreign);
  });

  it('leaves parts of an amount to the shop', async () => {
    const bought = await buy();
    const payment = ref();
    const part = stripe.intent(bought.metadata, payment, { amount_received: 100 });
    expect(await outcome(stripe.event('payment_intent.succeeded', part))).toBe('partial');
    expect(await standing(bought)).toBe('completed');
    await outcome(completed(bought, payment));
    const charge = stripe.charge(bought.metadata, payment, { amount_refunded: 100, refunded: false });
    expect(await outcome(stripe.event('charge.refunded', charge))).toBe('partial');
    const more = stripe.charge(bought.metadata, payment, { amount_refunded: 300, refunded: false });
    expect(await outcome(stripe.event('charge.refunded', more))).toBe('partial');
    expect(await standing(bought)).toBe('redeemed');
    const about = { reservation_id: bought.id, payment_ref: payment, provider: 'stripe', currency: 'USD', qty: 1 };
    expect(await eventsOf(bought.id, 'payment.partial')).toMatchObject([
      { ...about, part: 'paid', amount: 100 },
      { ...about, part: 'refunded', amount: 100 },
      { ...about, part: 'refunded', amount: 300 },
    ]);
  });

  it('has no effect for other payments of the account, and for reservations that do not exist', async () => {
    expect(await outcome(stripe.event('checkout.session.completed', stripe.session({}, ref())))).toBe('unrelated');
    expect(await outcome(stripe.event('customer.created', { id: 'cus_1', object: 'customer' }))).toBe('ignored');
    for (const reservation_id of ['none', '01a20494-d5b7-7b9a-8ae8-baef7fffffff']) {
      const event = stripe.event('checkout.session.completed', stripe.session({ reservation_id }, ref()));
      for (const repeated of [false, true]) {
        const { status, data } = await stripe.send(event);
        expect([status, data]).toEqual([202, { outcome: 'unknown', repeated }]);
      }
    }
  });

  it('is refused without a valid signature: forged, of another body, old, or of an unknown provider', async () => {
    const bought = await buy();
    const event = completed(bought, ref());
    const other = new FakeStripe(stripe.endpoint, 'whsec_another-secret-0123');
    expectProblem(await other.send(event), 401, 'signature_invalid');
    expectProblem(await stripe.send(event, Math.floor(Date.now() / 1000) - 301), 401, 'signature_invalid');
    expectProblem(await stripe.sendRaw(JSON.stringify(event), null), 401, 'signature_invalid');
    // For some of them Stripe's library throws other errors than those of its own.
    for (const signature of [`t=1,v1=${'0'.repeat(64)}`, 't=1,v1=', `t=1,v1=${'é'.repeat(64)}`, 't=', ',', 'v1=a'])
      expectProblem(await stripe.sendRaw(JSON.stringify(event), signature), 401, 'signature_invalid');
    for (const malformed of [
      null,
      [],
      {},
      { ...event, id: 'evt_\0' },
      { ...event, data: null },
      { ...event, data: {} },
    ])
      expectProblem(await stripe.send(malformed as never), 400, 'webhook_invalid');
    expectProblem(
      await new FakeStripe(`${service.url}/payments/paypal`).send(event),
      404,
      'payment_provider_not_found',
    );
    const large = stripe.event('customer.created', { text: 'x'.repeat(300_000) });
    expectProblem(await stripe.send(large), 413, 'body_too_large');
    expect(await standing(bought)).toBe('completed');
    expectProblem(await send(stripe.endpoint), 405, 'method_not_allowed');
  });

  it('limits forged webhooks of a network, and not those of the provider', async () => {
    // Each process counts by itself, and the other tests need theirs.
    const { url } = await startApiProcess(service.env);
    const there = new FakeStripe(`${url}/payments/stripe`);
    const limited = await until('the network is limited', async () => {
      const answers = await Promise.all(Array.from({ length: 50 }, () => there.sendRaw('{}', 't=1,v1=00')));
      return answers.find(({ status }) => status === 429);
    });
    expectProblem(limited, 429, 'rate_limited');
    const bought = await buy();
    expect((await there.send(completed(bought, ref()))).data.outcome).toBe('confirmed');
  });
});

describe('a signed webhook', () => {
  it('confirms, refunds, and releases, once for each id', async () => {
    const [paid, failed, expired] = [await buy(), await buy(), await buy()];
    const id = randomUUID();
    const say = async (type: string, data: Record<string, unknown>, options = {}) =>
      (await sendSigned(service.url, `payment.${type}`, data, options)).data;
    const paidData = { reservation_id: paid.id, payment_ref: 'p-1' };
    expect(await say('succeeded', paidData, { id })).toEqual({ outcome: 'confirmed', repeated: false });
    expect(await say('succeeded', paidData, { id })).toEqual({ outcome: 'confirmed', repeated: true });
    expect((await say('refunded', paidData)).outcome).toBe('refunded');
    expect((await say('failed', { order_id: failed.order })).outcome).toBe('recorded');
    expect(await standing(failed)).toBe('completed');
    expect((await say('expired', { order_id: expired.order, product_id: expired.product })).outcome).toBe('released');
    expect((await say('disputed', paidData)).outcome).toBe('ignored');
  });

  it('is refused with another secret, after five minutes, and with another body', async () => {
    const data = { reservation_id: (await buy()).id };
    const secret = `whsec_${Buffer.alloc(24).toString('base64')}`;
    const at = new Date(Date.now() - 301_000);
    for (const options of [{ secret }, { at }])
      expectProblem(await sendSigned(service.url, 'payment.succeeded', data, options), 401, 'signature_invalid');
    const unsigned = await send(`${service.url}/payments/events`, { method: 'POST', json: data });
    expectProblem(unsigned, 401, 'signature_invalid');
    expect(unsigned.headers.get('www-authenticate')).toBe('Signature realm="doorbuster"');
    const malformed = [
      { reservation_id: 7 },
      {},
      { payment_ref: 'p-1' },
      { ...data, amount: 1.5 },
      { ...data, payment_ref: '\0' },
    ];
    for (const one of malformed)
      expectProblem(await sendSigned(service.url, 'payment.succeeded', one), 400, 'webhook_invalid');
    expectProblem(await sendSigned(service.url, 'payment.refunded', {}), 400, 'webhook_invalid');
  });
});

describe('an event for an unknown order', () => {
  /** A shared code, and its redemption for an order of the shop. */
  async function redeem(order_id: string) {
    const code = `C${randomUUID().replaceAll('-', '').slice(0, 20).toUpperCase()}`;
    const product = await operator.openCampaign({ total_limit: 3, hold_seconds: 900, code });
    const { data } = await send(`${service.url}/coupons/redeem`, {
      method: 'POST',
      json: { code, user_id: `user-${order_id}`, order_id, idempotency_key: randomUUID() },
    });
    return { product, id: String(data.reservation_id) };
  }
  const rowsOf = async (payment: string) => {
    const sql = 'select outcome, reservation_id, named, amount::int from payment_events where payment_ref = $1';
    return (await service.database.client.query(sql, [payment])).rows;
  };

  it('is kept, shown to operators, and counted once the order exists', async () => {
    const [order_id, payment_ref] = [`cart-${randomUUID()}`, ref()];
    const data = { order_id, payment_ref, amount: 4900, currency: 'EUR' };
    const kept = await sendSigned(service.url, 'payment.succeeded', data);
    expect([kept.status, kept.data]).toEqual([202, { outcome: 'unknown', repeated: false }]);
    const listed = await operator.call('GET', `/admin/payment-events?payment_ref=${payment_ref}&needs_action=true`);
    expect(listed.data).toMatchObject([
      { outcome: 'unknown', order_id, reservation_id: null, amount: 4900, currency: 'EUR', provider: 'events' },
    ]);
    const expected = { provider: 'events', payment_ref, named: { order_id }, amount: 4900, currency: 'EUR' };
    expect(await eventsOf(payment_ref, 'payment.unknown')).toEqual([expected]);
    const { id, product } = await redeem(order_id);
    // Workers look each minute.
    const isCounted = async () => (await rowsOf(payment_ref))[0]?.outcome === 'confirmed';
    await until('a worker has counted it', isCounted, 120_000);
    expect(await rowsOf(payment_ref)).toEqual([
      { outcome: 'confirmed', reservation_id: id, named: null, amount: 4900 },
    ]);
    await expectUnits(product, { redeemed: 1, held: 0, free: 2 });
  });

  it('is counted at once when the provider sends it again', async () => {
    const [order_id, payment_ref, id] = [`cart-${randomUUID()}`, ref(), randomUUID()];
    const say = () => sendSigned(service.url, 'payment.succeeded', { order_id, payment_ref }, { id });
    expect((await say()).status).toBe(202);
    const { product } = await redeem(order_id);
    const again = await until('it is counted', async () => {
      const answer = await say();
      return answer.status === 200 && answer;
    });
    expect(['confirmed', 'repeated']).toContain(again.data.outcome);
    await expectUnits(product, { redeemed: 1, held: 0, free: 2 });
    expect(await rowsOf(payment_ref)).toHaveLength(1);
  });

  it.each(['payment.failed', 'payment.expired'])('%s says nothing about an order that is made later', async (type) => {
    const [order_id, payment_ref, id] = [`cart-${randomUUID()}`, ref(), randomUUID()];
    const say = async () => (await sendSigned(service.url, type, { order_id, payment_ref }, { id })).data;
    expect(await say()).toEqual({ outcome: 'unknown', repeated: false });
    const { product } = await redeem(order_id);
    expect(await say()).toEqual({ outcome: 'unknown', repeated: true });
    expect(await rowsOf(payment_ref)).toMatchObject([{ outcome: 'unknown', reservation_id: null }]);
    await expectUnits(product, { redeemed: 0, held: 1, free: 2 });
  });

  it('that has several reservations is decided for each', async () => {
    const [order_id, payment_ref] = [`cart-${randomUUID()}`, ref()];
    const all = [await redeem(order_id), await redeem(order_id)];
    await until('Postgres has both', async () => {
      const { rows } = await service.database.client.query('select 1 from redemptions where order_id = $1', [order_id]);
      return rows.length === 2;
    });
    const paid = await sendSigned(service.url, 'payment.succeeded', { order_id, payment_ref });
    expect([paid.status, paid.data.outcome]).toEqual([200, 'confirmed']);
    const rows = (await rowsOf(payment_ref)).map(({ reservation_id }) => reservation_id);
    expect(rows.sort()).toEqual(all.map(({ id }) => id).sort());
    expect((await sendSigned(service.url, 'payment.refunded', { payment_ref })).data.outcome).toBe('refunded');
    for (const { product } of all) await expectUnits(product, { redeemed: 0, free: 3 });
    const listed = [];
    for (let cursor = ''; ; ) {
      const query = `payment_ref=${payment_ref}&limit=1${cursor && `&cursor=${cursor}`}`;
      const { body } = await operator.call('GET', `/admin/payment-events?${query}`);
      listed.push(...body.data);
      if (body.next_cursor === null) break;
      cursor = body.next_cursor;
    }
    expect(listed).toHaveLength(4);
  });
});

describe('a refund', () => {
  it('of less than was paid is one of a part, whether the provider says so or not', async () => {
    const bought = await buy();
    const [payment_ref, other] = [ref(), ref()];
    const of = (amount: number, more = {}) => ({
      reservation_id: bought.id,
      payment_ref,
      amount,
      currency: 'EUR',
      ...more,
    });
    await sendSigned(service.url, 'payment.succeeded', of(4900));
    expect((await sendSigned(service.url, 'payment.refunded', of(1000))).data.outcome).toBe('partial');
    expect(await standing(bought)).toBe('redeemed');
    expect((await sendSigned(service.url, 'payment.refunded', of(4900))).data.outcome).toBe('refunded');
    const priced = await buy({ branding: { price: 4900, currency: 'EUR' } });
    await payments.confirm(priced.id, other);
    const part = { reservation_id: priced.id, payment_ref: other, amount: 100, currency: 'EUR' };
    expect((await sendSigned(service.url, 'payment.refunded', part)).data.outcome).toBe('partial');
  });

  it('of a payment that was reported for each of several reservations is compared with those that it names', async () => {
    const report = (kind: 'succeeded' | 'refunded', fields: object) =>
      sendSigned(service.url, `payment.${kind}`, { currency: 'EUR', ...fields }).then(({ data }) => data.outcome);
    const pay = async () => {
      const [one, other, payment_ref] = [await buy(), await buy(), ref()];
      // A provider may report a payment twice, under several names.
      for (const [{ id }, amount] of [
        [one, 1_000],
        [other, 3_000],
      ] as const)
        for (let i = 0; i < 2; i += 1) await report('succeeded', { reservation_id: id, payment_ref, amount });
      return { one, other, payment_ref };
    };
    const { one, other, payment_ref } = await pay();
    expect(await report('refunded', { reservation_id: one.id, payment_ref, amount: 1_000 })).toBe('refunded');
    expect(await report('refunded', { reservation_id: other.id, payment_ref, amount: 1_000 })).toBe('partial');
    expect(await report('refunded', { reservation_id: other.id, payment_ref, amount: 3_000 })).toBe('refunded');
    const both = await pay();
    expect(await report('refunded', { payment_ref: both.payment_ref, amount: 3_000 })).toBe('partial');
    expect(await report('refunded', { payment_ref: both.payment_ref, amount: 4_000 })).toBe('refunded');
    for (const { product } of [one, other, both.one, both.other]) await expectUnits(product, { redeemed: 0, free: 3 });
  });

  it('of a part that names no reservation of the payment refunds and releases nothing', async () => {
    const [{ id, product }, other, payment_ref] = [await buy(), await buy(), ref()];
    const paid = { reservation_id: id, payment_ref, amount: 1_000, currency: 'EUR' };
    expect((await sendSigned(service.url, 'payment.succeeded', paid)).data.outcome).toBe('confirmed');
    const part = { payment_ref, amount: 400, currency: 'EUR' };
    const refund = async (name: object) =>
      (await sendSigned(service.url, 'payment.refunded', { ...part, ...name })).data.outcome;
    expect(await refund({ order_id: randomUUID() })).toBe('partial');
    expect(await refund({ reservation_id: other.id })).toBe('partial');
    expect(await standing(other)).toBe('completed');
    expect((await sendSigned(service.url, 'payment.succeeded', paid)).data.outcome).toBe('repeated');
    await expectUnits(product, { redeemed: 1, free: 2 });
  });

  it('without a name is kept until its payment comes, which is not counted then', async () => {
    const bought = await buy();
    const payment_ref = ref();
    const first = await sendSigned(service.url, 'payment.refunded', { payment_ref });
    expect([first.status, first.data.outcome]).toEqual([202, 'unknown']);
    const paid = await sendSigned(service.url, 'payment.succeeded', { reservation_id: bought.id, payment_ref });
    expect(paid.data.outcome).toBe('refunded_before');
    expect(await standing(bought)).toBe('released');
    await expectUnits(bought.product, { redeemed: 0, held: 0, free: 3 });
  });

  it('without a known reservation is not one of a payment of another provider with the same reference', async () => {
    const [bought, payment_ref] = [await buy(), ref()];
    const elsewhere = stripe.event('charge.refunded', stripe.charge({ order_id: randomUUID() }, payment_ref));
    expect((await stripe.send(elsewhere)).data.outcome).toBe('unknown');
    const paid = await sendSigned(service.url, 'payment.succeeded', { reservation_id: bought.id, payment_ref });
    expect(paid.data.outcome).toBe('confirmed');
    await expectUnits(bought.product, { redeemed: 1, held: 0, free: 2 });
  });
});

describe('an order that others can name', () => {
  const redeem = async (user_id: string, order_id: string, terms: Record<string, unknown> = {}) => {
    const code = `C${randomUUID().replaceAll('-', '').slice(0, 20).toUpperCase()}`;
    const product = await operator.openCampaign({ total_limit: 3, hold_seconds: 900, code, ...terms });
    const json = { code, user_id, order_id, idempotency_key: randomUUID() };
    const { data } = await send(`${service.url}/coupons/redeem`, { method: 'POST', json });
    return { product, id: String(data.reservation_id) };
  };
  const statusOf = async (id: string) => {
    const sql = 'select status from redemptions where redemption_id = $1';
    return (await service.database.client.query(sql, [id])).rows[0]?.status;
  };

  it('gives the payment of one user to no other, and finds the one whom the payment names', async () => {
    const [order_id, payment_ref] = [`cart-${randomUUID()}`, ref()];
    const victim = await redeem('victim', order_id);
    await payments.release(victim.id);
    const other = await redeem('attacker', order_id);
    const paid = await sendSigned(service.url, 'payment.succeeded', { order_id, payment_ref });
    expect([paid.status, paid.data.outcome]).toEqual([202, 'unknown']);
    const named = await sendSigned(service.url, 'payment.succeeded', { order_id, payment_ref, user_id: 'victim' });
    expect([named.status, named.data.outcome]).toEqual([200, 'late']);
    expect(await statusOf(other.id)).toBe('reserved');
    const alone = await redeem('attacker', `${order_id}-2`);
    const foreign = { order_id: `${order_id}-2`, payment_ref: ref(), user_id: 'victim' };
    expect((await sendSigned(service.url, 'payment.succeeded', foreign)).status).toBe(202);
    expect(await statusOf(alone.id)).toBe('reserved');
    const listed = await operator.call('GET', `/admin/payment-events?order_id=${order_id}`);
    expect(listed.data.map(({ outcome }: { outcome: string }) => outcome).sort()).toEqual(['late', 'unknown']);
  });

  it('counts a payment for all of the order, and leaves the parts that have no unit to the shop', async () => {
    const [user, order_id, payment_ref] = [`user-${randomUUID()}`, `cart-${randomUUID()}`, ref()];
    const [kept, short] = [await redeem(user, order_id), await redeem(user, order_id, { hold_seconds: 1 })];
    const [given, free] = [await redeem(user, order_id), await redeem(user, order_id, { late_payment: 'reacquire' })];
    for (const { id } of [given, free]) await payments.release(id);
    await until('one has expired', async () => (await statusOf(short.id)) === 'expired');
    const paid = await sendSigned(service.url, 'payment.succeeded', { order_id, payment_ref });
    expect([paid.status, paid.data.outcome]).toEqual([200, 'partial']);
    await until('it is written', async () => (await statusOf(kept.id)) === 'redeemed');
    await until('a free unit is taken again', async () => (await statusOf(free.id)) === 'redeemed');
    expect([await statusOf(short.id), await statusOf(given.id)]).toEqual(['expired', 'released']);
    const { data } = await operator.call('GET', `/admin/payment-events?payment_ref=${payment_ref}&needs_action=true`);
    expect(
      new Set(data.map(({ outcome, reservation_id }: Record<string, string>) => [outcome, reservation_id])),
    ).toEqual(new Set([short, given].map(({ id }) => ['partial', id])));
    for (const { id } of [short, given]) {
      expect(await eventsOf(id, 'payment.partial')).toMatchObject([{ payment_ref, part: 'without_unit', qty: 1 }]);
      expect(await eventsOf(id, 'payment.late')).toEqual([]);
    }
  });

  it('is not completed by a confirm of the shop with what the shopper gave up', async () => {
    const [user, order_id, payment_ref] = [`user-${randomUUID()}`, `cart-${randomUUID()}`, ref()];
    const [kept, given] = [await redeem(user, order_id), await redeem(user, order_id, { late_payment: 'reacquire' })];
    await payments.release(given.id);
    const confirmed = await payments.say('confirm', { order_id, payment_ref });
    expectProblem(confirmed, 409, 'order_partly_decided');
    await until('it is written', async () => (await statusOf(kept.id)) === 'redeemed');
    expect(await statusOf(given.id)).toBe('released');
  });
});

describe('an amount', () => {
  const priced = (more = {}) => buy({ max_qty: 2, branding: { price: 4900, currency: 'USD' }, ...more });

  it('that is not the price is confirmed, listed, and makes one event', async () => {
    const [right, wrong] = [await priced(), await priced()];
    expect(await outcome(completed(right, ref()))).toBe('confirmed');
    const payment = ref();
    const session = { amount_total: 4800 };
    const event = stripe.event('checkout.session.completed', stripe.session(wrong.metadata, payment, session));
    expect(await outcome(event)).toBe('mismatch');
    expect(await outcome(stripe.event('payment_intent.succeeded', stripe.intent(wrong.metadata, payment)))).toBe(
      'repeated',
    );
    expect(await standing(wrong)).toBe('redeemed');
    expect(await eventsOf(wrong.id, 'payment.mismatched')).toMatchObject([
      { reservation_id: wrong.id, payment_ref: payment, provider: 'stripe', amount: 4800, currency: 'USD', qty: 1 },
    ]);
    const { data } = await operator.call('GET', `/admin/payment-events?needs_action=true&payment_ref=${payment}`);
    expect(data).toMatchObject([{ outcome: 'mismatch', amount: 4800, currency: 'USD' }]);
  });

  it('is compared also if the first event of the payment had none, and once', async () => {
    const [wrong, payment] = [await priced(), ref()];
    const session = stripe.session(wrong.metadata, payment, { amount_total: null });
    expect(await outcome(stripe.event('checkout.session.completed', session))).toBe('confirmed');
    const intent = () =>
      stripe.event(
        'payment_intent.succeeded',
        stripe.intent(wrong.metadata, payment, { amount: 1, amount_received: 1 }),
      );
    expect([await outcome(intent()), await outcome(intent())]).toEqual(['mismatch', 'repeated']);
    expect(await eventsOf(wrong.id, 'payment.mismatched')).toHaveLength(1);
  });

  it('is compared with the currency too, and with nothing where a campaign has no price or sells coupons', async () => {
    const other = await priced({ branding: { price: 4900, currency: 'EUR' } });
    expect(await outcome(completed(other, ref()))).toBe('mismatch');
    const [free, coupon] = [await buy(), await priced({ code: `C${randomUUID().slice(0, 8).toUpperCase()}` })];
    const data = (id: string) => ({ reservation_id: id, payment_ref: ref(), amount: 1, currency: 'JPY' });
    expect((await sendSigned(service.url, 'payment.succeeded', data(free.id))).data.outcome).toBe('confirmed');
    expect((await sendSigned(service.url, 'payment.succeeded', data(coupon.id))).data.outcome).toBe('confirmed');
  });

  it('is that of all units that were paid, also when some were refunded before it was reported', async () => {
    for (const [amount, expected] of [
      [3_000, 'confirmed'],
      [2_000, 'mismatch'],
    ] as const) {
      const price = { branding: { price: 1_000, currency: 'EUR' } };
      const product = await operator.openCampaign({ total_limit: 3, max_qty: 3, hold_seconds: 900, ...price });
      const { reservation_id } = (await arrive(service.url, product).checkout({ qty: 3 })).data;
      const payment_ref = ref();
      await payments.confirm(reservation_id, payment_ref);
      expect((await payments.say('refund', { reservation_id, keep: 2 })).data.qty).toBe(2);
      const paid = { reservation_id, payment_ref, amount, currency: 'EUR' };
      expect((await sendSigned(service.url, 'payment.succeeded', paid)).data.outcome).toBe(expected);
    }
  });
});

describe('a notification of Midtrans', () => {
  it('confirms a settlement by order, releases an expired one, and refunds', async () => {
    const [paid, expired] = [await buy(), await buy()];
    const of = async (fields: Record<string, string>) => (await sendMidtrans(service.url, fields)).data.outcome;
    const payment = { order_id: paid.order, transaction_id: 'm-1' };
    expect(await of({ ...payment, transaction_status: 'pending', status_code: '201' })).toBe('ignored');
    expect(await of({ ...payment, transaction_status: 'settlement', fraud_status: 'challenge' })).toBe('ignored');
    expect(await of({ ...payment, transaction_status: 'settlement', status_code: '201' })).toBe('ignored');
    expect(await of({ ...payment, transaction_status: 'settlement' })).toBe('confirmed');
    expect(await of({ ...payment, transaction_status: 'refund' })).toBe('refunded');
    expect(await of({ order_id: expired.order, transaction_status: 'expire', status_code: '202' })).toBe('released');
    await expectUnits(paid.product, { redeemed: 0, held: 0, free: 3 });
  });

  it('gives the unit back when a transaction is cancelled, before or after it was captured', async () => {
    const [captured, pending] = [await buy(), await buy()];
    const of = async ({ order }: { order: string }, transaction_status: string) =>
      (await sendMidtrans(service.url, { order_id: order, transaction_id: `m-${order}`, transaction_status })).data
        .outcome;
    expect(await of(captured, 'capture')).toBe('confirmed');
    expect(await of(captured, 'cancel')).toBe('refunded');
    expect(await of(pending, 'cancel')).toBe('released');
    expect(await of(pending, 'capture')).toBe('refunded_before');
    for (const { product } of [captured, pending]) await expectUnits(product, { redeemed: 0, held: 0, free: 3 });
    // One that the shop has confirmed may be paid by another transaction.
    const confirmed = await buy();
    await payments.say('confirm', { order_id: confirmed.order });
    expect(await of(confirmed, 'cancel')).toBe('unpaid');
    await expectUnits(confirmed.product, { redeemed: 1, held: 0, free: 2 });
  });

  it('of a cancelled transaction is still one that may be unpaid when a worker tries it again', async () => {
    const table = new PaymentEventsTable(service.database.client as never);
    for (const [status, mayBeUnpaid] of [
      ['cancel', true],
      ['refund', false],
    ] as const) {
      const [order_id, transaction_id] = [`cart-${randomUUID()}`, ref()];
      const { data } = await sendMidtrans(service.url, { order_id, transaction_id, transaction_status: status });
      expect(data.outcome).toBe('unknown');
      const kept = (await table.unknown(1, 1_000, null)).filter(({ paymentRef }) => paymentRef === transaction_id);
      expect(kept).toMatchObject([{ kind: 'refunded', named: { order_id }, mayBeUnpaid }]);
    }
  });

  it('takes each part of a refund for an event of its own', async () => {
    const { order } = await buy();
    const payment = { order_id: order, transaction_id: `m-${order}` };
    await sendMidtrans(service.url, { ...payment, transaction_status: 'settlement' });
    const part = (refund_amount: string) =>
      sendMidtrans(service.url, { ...payment, transaction_status: 'partial_refund', refund_amount });
    const answers = [await part('10000.00'), await part('20000.00'), await part('20000.00')];
    expect(answers.map(({ data }) => data.repeated ?? false)).toEqual([false, false, true]);
  });

  it('is refused with another key', async () => {
    const { order } = await buy();
    const forged = await sendMidtrans(
      service.url,
      { order_id: order, transaction_status: 'settlement' },
      'another-key-012345',
    );
    expectProblem(forged, 401, 'signature_invalid');
    // The signature is in the body, so it is parsed before.
    const long = await sendMidtrans(service.url, { order_id: order, custom_field2: 'x'.repeat(20_000) });
    expectProblem(long, 413, 'body_too_large');
  });
});
