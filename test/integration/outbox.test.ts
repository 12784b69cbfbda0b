import { afterEach, expect, test } from '@jest/globals';
import { cloudEvent, EVENT_TYPES, EVENTS } from '../../shared/contracts/events.js';
import { emptyPage, PostgresWriter } from '../../shared/image/postgres-writer.js';
import { JournalCursor } from '../../shared/projection/journal-cursor.js';
import { type CampaignCopy, SaleCopy } from '../../shared/sale/sale-copy.js';
import { Outbox } from '../../worker/publish-outbox/outbox.js';
import type { TestCampaign } from '../harness/campaign.js';
import { startPersistence } from '../harness/persistence.js';
import { startSale } from '../harness/sale.js';

const sale = await startSale();
const store = await startPersistence(sale);
const outbox = new Outbox(store.database);
afterEach(async () => {
  await sale.expectConsistent();
  expect(await store.rejects()).toEqual([]);
});

const all = () => outbox.read({ after: 0, upTo: Number.MAX_SAFE_INTEGER, types: null }, 100_000);
const eventsOf = async (campaign: TestCampaign) =>
  (await all()).filter(({ data }) => data.campaign_id === campaign.terms.id);
const short = (type: string) => type.replace(/^dev\.doorbuster\.|\.v1$/g, '');
const typesOf = async (campaign: TestCampaign) => (await eventsOf(campaign)).map(({ type }) => short(type));
const typesAbout = async (id: string) =>
  (await all()).filter(({ subject }) => subject === id).map(({ type }) => short(type));

test('the outbox has an event for each change, in their order, each once', async () => {
  const campaign = await store.openCampaign({
    totalLimit: 3,
    latePayment: 'reacquire',
    discount: { kind: 'percent', percent: 20 },
  });
  const paid = await campaign.take('ann', {
    order: 'cart-1',
    qty: 2,
    device: 'phone',
    trace: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
  });
  await campaign.confirm(paid, 'pay-1');
  const late = await campaign.take('bob');
  await campaign.join('cid', { device: 'tablet' });
  await campaign.leave('cid');
  await campaign.letDeadlinePass(late);
  await campaign.confirm(late, 'pay-2');
  await campaign.join('dan', { device: 'desk' });
  await campaign.refund(paid);
  const promoted = String((await campaign.person('dan'))?.reservation);
  await campaign.release(promoted, null, 'changed their mind');
  await campaign.restock(2);
  await campaign.setStatus('pause');
  await campaign.setStatus('resume');
  await campaign.setStatus('close');
  const entries = await campaign.entries();
  await store.persist();

  const events = await eventsOf(campaign);
  expect(events.map(({ type, subject }) => [short(type), subject])).toEqual([
    ['redemption.reserved', paid],
    ['redemption.redeemed', paid],
    ['redemption.reserved', late],
    ['redemption.expired', late],
    ['redemption.redeemed', late],
    ['redemption.refunded', paid],
    ['waiting.promoted', promoted],
    ['redemption.reserved', promoted],
    ['redemption.released', promoted],
    ['campaign.restocked', campaign.product],
    ['campaign.paused', campaign.product],
    ['campaign.resumed', campaign.product],
    ['campaign.closed', campaign.product],
  ]);
  const same = {
    campaign_id: campaign.terms.id,
    product_id: campaign.product,
    discount: { kind: 'percent', percent: 20 },
  };
  const ann = { ...same, reservation_id: paid, user_id: 'ann', order_id: 'cart-1', qty: 2, device_fp: 'phone' };
  const at = (index: number) => events[index]?.data;
  const due = (reservation: string) => {
    const entry = entries.find((one) => one.kind === 'reserved' && one.reservation === reservation);
    return new Date(entry?.kind === 'reserved' ? entry.dueMs : 0).toISOString();
  };
  expect(at(0)).toEqual({ ...ann, pay_before: due(paid) });
  expect(at(1)).toEqual({ ...ann, payment_ref: 'pay-1', reacquired: false });
  expect(at(3)).toMatchObject({ user_id: 'bob', reason: 'deadline' });
  expect(at(4)).toMatchObject({ user_id: 'bob', payment_ref: 'pay-2', reacquired: true });
  expect(at(5)).toEqual({ ...ann, burned: false });
  expect(at(6)).toMatchObject({ user_id: 'dan', line_no: 2, device_fp: 'desk', pay_before: due(promoted) });
  expect(at(8)).toMatchObject({ user_id: 'dan', reason: 'changed their mind' });
  expect(at(9)).toEqual({ campaign_id: campaign.terms.id, product_id: campaign.product, delta: 2, total_limit: 5 });
  expect(at(10)).toEqual({
    campaign_id: campaign.terms.id,
    product_id: campaign.product,
    before: 'open',
    status: 'paused',
    actor: 'operator',
    reason: null,
  });
  for (const { type, data } of events) expect(EVENTS[type].data.strict().parse(data)).toEqual(data);
  const first = entries[0];
  expect(events[0]).toMatchObject({
    occurredAt: new Date(first?.atMs ?? 0),
    trace: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
  });
  expect(new Set(events.map(({ id }) => id)).size).toBe(13);
});

test('each time that units are given back is an event, and every event has the units of its time', async () => {
  const campaign = await store.openCampaign({ totalLimit: 4, maxQty: 4 });
  const id = await campaign.take('ann', { qty: 4 });
  await campaign.release(id, null, 'too many', '', 3);
  await campaign.confirm(id);
  await campaign.refund(id, '', 2);
  await campaign.amend({ refundPolicy: 'burn' });
  await campaign.refund(id, '', 1);
  await campaign.refund(id, '', 1);
  await store.persist();
  const events = await eventsOf(campaign);
  const known = { previous_qty: undefined, refunded: undefined, burned: undefined, reason: undefined };
  const reduced = (previous_qty: number, refunded: boolean, burned: boolean, reason: string | null = null) => ({
    ...{ previous_qty, refunded, burned, reason },
  });
  expect(
    events.map(({ type, data }) => {
      const { qty, previous_qty, refunded, burned, reason } = data;
      return [short(type), qty, { previous_qty, refunded, burned, reason }];
    }),
  ).toEqual([
    ['redemption.reserved', 4, known],
    ['redemption.reduced', 3, reduced(4, false, false, 'too many')],
    ['redemption.redeemed', 3, known],
    ['redemption.reduced', 2, reduced(3, true, false)],
    ['redemption.reduced', 1, reduced(2, true, true)],
  ]);
  for (const { type, data } of events) expect(EVENTS[type].data.strict().parse(data)).toEqual(data);
  expect(new Set(events.map(({ id }) => id)).size).toBe(5);
});

test('a unit without payment has only the event redeemed, also for users from the line', async () => {
  const campaign = await store.openCampaign({ totalLimit: 1, holdSeconds: 0 });
  const first = await campaign.take('ann');
  await campaign.join('bob');
  const second = String((await campaign.person('bob'))?.reservation);
  await campaign.refund(first);
  await store.persist();
  expect(await typesAbout(first)).toEqual(['redemption.redeemed', 'redemption.refunded']);
  expect(await typesAbout(second)).toEqual(['waiting.promoted', 'redemption.redeemed']);
  expect((await eventsOf(campaign)).at(-1)?.data).toMatchObject({ user_id: 'bob', qty: 1, payment_ref: null });
});

test('a transaction that is rolled back writes no event; repeated, it writes each once', async () => {
  const campaign = await store.openCampaign();
  const id = await campaign.take('ann');
  await campaign.confirm(id);
  class DyingCursor extends JournalCursor {
    override move(): Promise<void> {
      return Promise.reject(new Error('killed'));
    }
  }
  const dying = store.persistWith();
  Object.assign(dying.deps, { cursor: new DyingCursor(store.database) });
  await expect(store.persist(dying)).rejects.toThrow('killed');
  expect(await typesOf(campaign)).toEqual([]);
  await store.persist();
  await store.persist();
  expect(await typesOf(campaign)).toEqual(['redemption.reserved', 'redemption.redeemed']);
});

test('the events are the same, however the journal is divided into batches', async () => {
  const campaign = await store.openCampaign({ perUserLimit: 3 });
  const id = await campaign.take('ann');
  await campaign.confirm(id);
  await campaign.refund(id);
  await campaign.release(await campaign.take('ann'));
  await store.persist(store.persistWith({ batchEntries: 1 }));
  expect(await typesOf(campaign)).toEqual([
    'redemption.reserved',
    'redemption.redeemed',
    'redemption.refunded',
    'redemption.reserved',
    'redemption.released',
  ]);
});

test('a reservation that Postgres refuses has only the event voided, whatever entries follow', async () => {
  const campaign = await store.openCampaign();
  await store.insertByHand(campaign, { user: 'ann' });
  const id = await campaign.take('ann', { order: 'cart-9' });
  await campaign.confirm(id);
  await store.persist();
  await store.persist();
  expect(await typesAbout(id)).toEqual(['redemption.voided']);
  expect((await eventsOf(campaign))[0]?.data).toEqual({
    campaign_id: campaign.terms.id,
    product_id: campaign.product,
    reservation_id: id,
    user_id: 'ann',
    order_id: 'cart-9',
    qty: 1,
    discount: null,
    device_fp: null,
    reason: 'redemptions_one_per_allowance',
  });
});

test('a void entry of the journal has its event after those of the entries before it', async () => {
  const campaign = await store.openCampaign();
  const id = await campaign.take('ann');
  await campaign.confirm(id);
  await campaign.void(id, 'returns', 'a_constraint');
  await store.persist();
  expect(await typesAbout(id)).toEqual(['redemption.reserved', 'redemption.redeemed', 'redemption.voided']);
});

test('a promise that was saved from a lost Redis has its event once, and not again when its entry is found later', async () => {
  const campaign = await store.openCampaign();
  const id = await campaign.take('ann', { order: 'cart-7' });
  await campaign.confirm(id);
  const entries = (await sale.journal.read(await store.cursor.read(), 10)).filter(
    ({ fields }) => fields.reservation === id,
  );
  expect(await store.recover(entries)).toMatchObject({ applied: 2, rejected: 0 });
  await store.persist();
  expect(await typesAbout(id)).toEqual(['redemption.reserved', 'redemption.redeemed']);
  expect((await eventsOf(campaign))[1]?.data).toMatchObject({ user_id: 'ann', order_id: 'cart-7', reacquired: false });
});

test('an event has the discount under which its reservation was made, not the current one', async () => {
  const campaign = await store.openCampaign({ discount: { kind: 'percent', percent: 20 } });
  await campaign.confirm(await campaign.take('ann'));
  const stored = await store.campaigns.find(campaign.product);
  if (!stored) throw new Error('there is no such campaign');
  await store.campaigns.amend(stored, { ...stored, discount: null }, {}, store.database);
  const discounts = async () => (await eventsOf(campaign)).map(({ data }) => data.discount);
  await store.persist();
  expect(await discounts()).toEqual(Array(2).fill({ kind: 'percent', percent: 20 }));
  await campaign.amend({ discount: null });
  await campaign.take('bob');
  await store.persist();
  expect((await discounts()).at(-1)).toBeNull();
});

test('an event is a CloudEvent', async () => {
  const campaign = await store.openCampaign();
  const id = await campaign.take('ann', { trace: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' });
  await campaign.release(id);
  await store.persist();
  const [first, second] = await eventsOf(campaign);
  if (!first || !second) throw new Error('there are no events');
  expect(JSON.parse(cloudEvent(first, '/shop'))).toEqual({
    specversion: '1.0',
    id: first.id,
    source: '/shop',
    type: 'dev.doorbuster.redemption.reserved.v1',
    subject: id,
    time: first.occurredAt.toISOString(),
    datacontenttype: 'application/json',
    traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
    data: first.data,
  });
  expect(JSON.parse(cloudEvent(second, '/shop'))).not.toHaveProperty('traceparent');
  expect(EVENT_TYPES.length).toBe(25);
});

test('the outbox deletes only old events that every endpoint in use has received, a batch at a time', async () => {
  const campaign = await store.openCampaign();
  for (const user of ['ann', 'bob', 'cid', 'dan']) await campaign.take(user);
  await store.persist();
  const week = 7 * 86_400_000;
  await store.sql.query("update outbox set occurred_at = now() - interval '8 days'");
  const [first, second, third, fourth] = await eventsOf(campaign);
  if (!first || !second || !third || !fourth) throw new Error('there are too few events');
  await store.sql.query('update outbox set occurred_at = now() where seq = $1', [fourth.seq]);
  const endpoint = (enabled: boolean, seq: number) =>
    store.sql.query(
      "insert into webhook_endpoints (endpoint_id, url, secrets, enabled, last_seq) values (gen_random_uuid(), 'https://x.test', '{s}', $1, $2)",
      [enabled, seq],
    );
  await endpoint(true, second.seq);
  await endpoint(false, 0);
  await outbox.prune(first.seq - 1, week, 1_000);
  expect((await all()).map(({ seq }) => seq)).toEqual([first, second, third, fourth].map(({ seq }) => seq));
  expect(await outbox.prune(fourth.seq, week, 1)).toEqual({ removed: 1, skipped: 0 });
  expect(await outbox.prune(fourth.seq, week, 1_000)).toEqual({ removed: 1, skipped: 0 });
  expect((await all()).map(({ seq }) => seq)).toEqual([third.seq, fourth.seq]);
  await store.sql.query('delete from webhook_endpoints');
  expect(await outbox.prune(fourth.seq, week, 1_000)).toEqual({ removed: 1, skipped: 0 });
  expect((await all()).map(({ seq }) => seq)).toEqual([fourth.seq]);
});

test('events of reservations that a repair writes need no search of the outbox', async () => {
  const campaign = await store.openCampaign();
  const { product } = campaign;
  const ids: string[] = [];
  for (let i = 0; i < 10; i += 1) ids.push(await campaign.take(`user-${i}`));
  const copies = new SaleCopy(sale.redis);
  const [copy, read] = await Promise.all([
    copies.campaign(product),
    copies.records({ product, reservations: ids, users: [] }),
  ]);
  const changes = [...read.value.reservations].map(([id, record]) => ({ id, record, row: null, hasMark: false }));
  const writer = new PostgresWriter(sale.redis, store.cursor);
  const searches = await store.database.transaction(async (client) => {
    const count = async () => {
      const sql = "select (idx_scan + seq_scan)::int as n from pg_stat_xact_user_tables where relname = 'outbox'";
      return (await client.query<{ n: number }>(sql)).rows[0]?.n ?? 0;
    };
    const before = await count();
    await writer.write(client, copy as CampaignCopy, { ...emptyPage(), changes }, await sale.nowMs());
    return (await count()) - before;
  });
  // The planner may look once.
  expect(searches).toBeLessThan(2);
  const types = ids.map(() => 'redemption.reserved');
  expect(await typesOf(campaign)).toEqual(types);
  await store.persist();
  expect(await typesOf(campaign)).toEqual(types);
});
