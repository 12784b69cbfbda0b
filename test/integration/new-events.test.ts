import { afterEach, describe, expect, it } from '@jest/globals';
import { WebhookReplays } from '../../api/admin/webhook-replays.js';
import type { OutboxEvent } from '../../shared/contracts/events.js';
import { WebhookEndpoints } from '../../shared/postgres/webhook-endpoints.js';
import type { WrittenEvents } from '../../shared/projection/event-writer.js';
import { type NewEvent, paymentLateEvent } from '../../shared/projection/events-of-entries.js';
import { insertEvents } from '../../shared/projection/new-events.js';
import { keys } from '../../shared/redis/keys.js';
import { Outbox } from '../../worker/publish-outbox/outbox.js';
import type { TestCampaign } from '../harness/campaign.js';
import { startPersistence } from '../harness/persistence.js';
import { startSale } from '../harness/sale.js';

const sale = await startSale();
const store = await startPersistence(sale);
const outbox = new Outbox(store.database);
afterEach(async () => {
  await store.sql.query('delete from journal_processes');
  expect(await store.rejects()).toEqual([]);
});

const TRACE = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';

/** Persists everything. @returns the events as they are handed over after the commits */
async function persist(): Promise<WrittenEvents[]> {
  const written: WrittenEvents[] = [];
  await store.persist(store.persistWith({ publish: (batch) => written.push(batch) }));
  return written;
}
/** Reads the rows of the journal. @returns appends them once more, as a process does that saved them */
async function appendAgain(): Promise<() => Promise<void>> {
  const rows = await sale.redis.xrange(keys.journal, '-', '+');
  return async () => {
    for (const [id, fields] of rows) await sale.redis.xadd(keys.journal, `${id.split('-')[0]}-*`, ...fields);
  };
}
const eventsOf = async (campaign: TestCampaign): Promise<OutboxEvent[]> =>
  (await outbox.read({ after: 0, upTo: Number.MAX_SAFE_INTEGER, types: null }, 10_000)).filter(
    ({ data }) => data.campaign_id === campaign.terms.id,
  );
const short = (type: string) => type.replace(/^dev\.doorbuster\.|\.v1$/g, '');
const typesOf = async (campaign: TestCampaign) => (await eventsOf(campaign)).map(({ type }) => short(type));
const rowsOf = async (campaign: TestCampaign) =>
  (await store.sql.query('select * from outbox where campaign_id = $1 order by seq', [campaign.terms.id])).rows;

describe('EventWriter', () => {
  it('keeps the quantity of a late payment when a later payment acquires the units again', async () => {
    const campaign = await store.openCampaign({ latePayment: 'reacquire' });
    const id = await campaign.take('ann', { qty: 3 });
    await campaign.release(id, null, '', '', 2);
    await campaign.release(id);
    await persist();
    const at = { campaignNo: campaign.terms.no, id };
    await store.sql.query('begin');
    await insertEvents(store.sql, [paymentLateEvent(at, 'stripe', 'pay-1', 'evt-1')]);
    await store.sql.query('commit');
    const quantityOfLate = async () =>
      (await eventsOf(campaign)).flatMap(({ type, data }) => (short(type) === 'payment.late' ? [data.qty] : []));
    expect(await quantityOfLate()).toEqual([2]);
    await campaign.confirm(id);
    await campaign.refund(id, '', 1);
    await persist();
    expect(await quantityOfLate()).toEqual([2]);
  });

  it('composes the events of new reservations as the view computes them', async () => {
    const held = await store.openCampaign({ discount: { kind: 'percent', percent: 20 } });
    const sold = await store.openCampaign({ holdSeconds: 0 });
    await held.take('ann', { order: 'cart-1', qty: 2, device: 'phone', trace: TRACE });
    await sold.take('bob');
    await held.take('cid');
    const [batch, ...more] = await persist();
    expect(more).toEqual([]);
    const stored = [...(await eventsOf(held)), ...(await eventsOf(sold))].sort((a, b) => a.seq - b.seq);
    expect(stored.map(({ type }) => short(type))).toEqual([
      'redemption.reserved',
      'redemption.redeemed',
      'redemption.reserved',
    ]);
    expect(batch?.events).toEqual(stored);
    expect(batch?.span).toMatchObject({ first: stored[0]?.seq, last: stored[2]?.seq, count: 3 });
    const [row] = await rowsOf(held);
    expect(row).toMatchObject({
      event_id: null,
      subject: null,
      product_id: null,
      trace: null,
      data: null,
      extra: null,
    });
  });

  it('leaves out what the entries do not say: promotions without a device, and changes', async () => {
    const campaign = await store.openCampaign({ totalLimit: 1 });
    const first = await campaign.take('ann');
    await campaign.join('bob', { device: 'desk' });
    const [alone] = await persist();
    expect(alone?.events).toHaveLength(1);
    await campaign.release(first);
    const [mixed] = await persist();
    expect(mixed).toMatchObject({ events: null, span: { after: alone?.span.last, count: 3 } });
    expect((await eventsOf(campaign)).map(({ type, data }) => [short(type), data.device_fp])).toEqual([
      ['redemption.reserved', null],
      ['redemption.released', null],
      ['waiting.promoted', 'desk'],
      ['redemption.reserved', 'desk'],
    ]);
  });

  it('composes no promotion whose device only the ticket has', async () => {
    const campaign = await store.openCampaign({ totalLimit: 0 });
    await campaign.join('bob', { device: 'desk' });
    await campaign.restock(1, { limit: 0 });
    await persist();
    await sale.store.line.promote(campaign.product, 10);
    const [batch] = await persist();
    const stored = (await eventsOf(campaign)).slice(1);
    expect(stored.map(({ type, data }) => [short(type), data.device_fp, data.line_no])).toEqual([
      ['waiting.promoted', 'desk', 1],
      ['redemption.reserved', 'desk', undefined],
    ]);
    expect(batch?.span.count).toBe(2);
    expect(batch?.events ?? stored).toEqual(stored);
  });

  it('keeps the discount of a reservation whose terms Postgres does not have', async () => {
    const campaign = await store.openCampaign({ discount: { kind: 'percent', percent: 20 } });
    await campaign.amend({});
    await campaign.take('ann');
    const [batch] = await persist();
    expect(batch?.events).toBeNull();
    await store.sql.query('update campaigns set discount = null where campaign_id = $1', [campaign.terms.id]);
    expect((await eventsOf(campaign)).map(({ data }) => data.discount)).toEqual([{ kind: 'percent', percent: 20 }]);
  });
});

describe('insertEvents', () => {
  it('writes an entry that is twice in a batch, or comes again, once', async () => {
    const campaign = await store.openCampaign();
    await campaign.take('ann');
    const first = await appendAgain();
    await persist();
    expect(await typesOf(campaign)).toEqual(['redemption.reserved']);
    await first();
    const written = await persist();
    expect(written).toEqual([]);
    await campaign.take('bob');
    const second = await appendAgain();
    await persist();
    await second();
    await persist();
    expect(await typesOf(campaign)).toEqual(['redemption.reserved', 'redemption.reserved']);
  });

  it('writes the rows and events that Postgres lacks, of a batch of which it has a part', async () => {
    const campaign = await store.openCampaign();
    const first = await campaign.take('ann');
    const second = await campaign.take('bob');
    const appendBoth = await appendAgain();
    await persist();
    await store.sql.query('delete from outbox where reservation_id = $1', [first]);
    await appendBoth();
    const third = await campaign.take('cid');
    const [batch, ...more] = await persist();
    expect(more).toEqual([]);
    expect((await eventsOf(campaign)).map(({ subject }) => subject)).toEqual([second, third, first]);
    const [, newRow, missing] = await rowsOf(campaign);
    expect(batch).toMatchObject({
      events: null,
      span: { first: Number(newRow.seq), last: Number(missing.seq), count: 2 },
    });
  });

  it('writes no second payment of what was paid when it was taken', async () => {
    const campaign = await store.openCampaign({ holdSeconds: 0 });
    const reservation = await campaign.take('ann');
    await persist();
    const paid: NewEvent = {
      type: 'dev.doorbuster.redemption.redeemed.v1',
      no: campaign.terms.no,
      reservation,
      once: reservation,
      atMs: null,
      trace: '',
      data: { payment_ref: null, reacquired: false },
    };
    expect(await insertEvents(store.database, [paid])).toBeNull();
    expect(await typesOf(campaign)).toEqual(['redemption.redeemed']);
  });
});

describe('WebhookEndpoints', () => {
  it('finds an event for a replay by its id, whether or not its row has one', async () => {
    const endpoints = new WebhookEndpoints(store.database);
    const campaign = await store.openCampaign();
    const id = await campaign.take('ann');
    await persist();
    await campaign.confirm(id);
    await persist();
    const seqs = (await eventsOf(campaign)).map(({ seq }) => seq);
    const endpoint = await endpoints.insert({
      id: '01a1fc6d-483b-7a4a-9e25-913b00000002',
      url: 'https://x.test',
      secrets: ['s'],
      types: null,
    });
    for (const { id: eventId } of await eventsOf(campaign)) {
      expect(await new WebhookReplays().request(endpoint, { eventId }, store.database)).toBe(1);
    }
    const { rows } = await store.sql.query('select next_seq::int, to_seq::int from webhook_replays order by replay_id');
    expect(rows).toEqual(seqs.map((seq) => ({ next_seq: seq, to_seq: seq })));
    expect(await new WebhookReplays().request(endpoint, { eventId: endpoint.id }, store.database)).toBe(0);
    // What it has not heard yet comes in its turn.
    const behind = { ...endpoint, lastSeq: Number(seqs[0]) - 1 };
    for (const { id: eventId } of await eventsOf(campaign)) {
      expect(await new WebhookReplays().request(behind, { eventId }, store.database)).toBe(0);
    }
    await store.sql.query('delete from webhook_endpoints');
  });
});
