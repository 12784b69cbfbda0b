import { afterEach, expect, test } from '@jest/globals';
import type pg from 'pg';
import { lockedCursor, lockWithHistory } from '../../shared/projection/journal-cursor.js';
import { onShardMessage, subscribeInShard } from '../../shared/redis/channels.js';
import { Journal } from '../../shared/redis/journal.js';
import { keys } from '../../shared/redis/keys.js';
import { type RequestName, RequestNames } from '../../shared/redis/request-names.js';
import type { TestCampaign } from '../harness/campaign.js';
import { keyNames } from '../harness/key-names.js';
import { connectDatabase, type Persistence, startPersistence } from '../harness/persistence.js';
import { connectToRedis, startSale, TEST_LIMITS } from '../harness/sale.js';
import { until } from '../harness/until.js';

const sale = await startSale();
const store = await startPersistence(sale);
afterEach(async () => {
  await sale.expectConsistent();
  expect(await store.rejects()).toEqual([]);
});

/** A sale with everything in it that a journal can hold. */
async function liveThrough(campaign: TestCampaign): Promise<Record<string, string>> {
  const ids: Record<string, string> = {};
  const take = async (user: string, options = {}) => (ids[user] = await campaign.take(user, options));
  await take('reserved', {
    qty: 2,
    order: 'cart-1',
    key: `key-of-${campaign.product}`,
    device: 'phone',
    trace: 'trace-1',
  });
  await campaign.confirm(await take('redeemed'), 'pay-1');
  await campaign.release(await take('released'), null, 'changed their mind');
  await campaign.letDeadlinePass(await take('expired'));
  await campaign.expire();
  await campaign.confirm(await take('refunded'));
  await campaign.refund(String(ids.refunded));
  await take('again');
  await campaign.letDeadlinePass(await take('late'));
  await campaign.confirm(String(ids.late), 'pay-2');
  await campaign.amend({ refundPolicy: 'burn' });
  await campaign.confirm(await take('burned'));
  await campaign.refund(String(ids.burned));
  await campaign.void(await take('voided'), 'returns', 'a_reason');
  await campaign.restock(-Number((await campaign.stock())?.free));
  await campaign.join('promoted', { order: 'cart-2' });
  await campaign.join('left');
  await campaign.join('waiting', { qty: 2 });
  ids.promoted = String((await campaign.person('promoted'))?.reservation);
  await campaign.leave('left');
  await campaign.release(String(ids.again));
  await campaign.setStatus('pause', 'olga', 'request-1');
  return ids;
}

/** Rows without what differs from one database to the next. */
async function rowsOf(persistence: Persistence, campaign: TestCampaign) {
  const redemptions = (await persistence.redemptions(campaign)).map(({ campaign_id: _, ...row }) => row);
  const { rows: audit } = await persistence.sql.query(
    'select at, actor, action, before, after, request_id from audit_log order by audit_id',
  );
  return {
    redemptions,
    tickets: await persistence.tickets(campaign),
    campaign: await persistence.campaignRow(campaign),
    audit,
  };
}

test('Persist writes what the scripts have journaled as rows', async () => {
  const campaign = await store.openCampaign({ latePayment: 'reacquire', totalLimit: 12 });
  const ids = await liveThrough(campaign);
  const entries = await campaign.entries();
  await store.persist();

  const at = (reservation: string, ...kinds: string[]) => {
    const entry = entries.find(
      (one) => 'reservation' in one && one.reservation === reservation && kinds.includes(one.kind),
    );
    return entry ? new Date(entry.atMs) : null;
  };
  const dueOf = (reservation: string) => {
    const entry = entries.find((one) => one.kind === 'reserved' && one.reservation === reservation);
    return entry?.kind === 'reserved' ? new Date(entry.dueMs) : null;
  };
  const row = (user: string, changed: Record<string, unknown>) => {
    const id = String(ids[user]);
    return {
      redemption_id: id,
      campaign_id: campaign.terms.id,
      user_id: user,
      order_id: `ord_${id.replaceAll('-', '')}`,
      qty: 1,
      slot: 1,
      burned: false,
      reacquired: false,
      code_no: null,
      terms_version: 1,
      line_no: null,
      reserved_at: at(id, 'reserved'),
      pay_before: dueOf(id),
      redeemed_at: at(id, 'redeemed'),
      released_at: at(id, 'released', 'expired', 'voided'),
      refunded_at: at(id, 'refunded'),
      reason: null,
      payment_ref: null,
      device_fp: null,
      idempotency_key: expect.any(String),
      idempotency_answer: expect.any(String),
      trace: null,
      stacking: null,
      metadata: null,
      released_qty: 0,
      refunded_qty: 0,
      burned_qty: 0,
      extended: false,
      reduced_at: null,
      ...changed,
    };
  };
  const expected = [
    row('reserved', {
      status: 'reserved',
      qty: 2,
      order_id: 'cart-1',
      stacking: 'combines',
      device_fp: 'phone',
      trace: 'trace-1',
      idempotency_key: `key-of-${campaign.product}`,
    }),
    row('redeemed', { status: 'redeemed', payment_ref: 'pay-1' }),
    row('released', { status: 'released', reason: 'changed their mind' }),
    row('expired', { status: 'expired', reason: 'deadline' }),
    row('refunded', { status: 'refunded' }),
    row('again', { status: 'released' }),
    row('late', { status: 'redeemed', reacquired: true, reason: 'deadline', payment_ref: 'pay-2' }),
    row('burned', { status: 'refunded', burned: true, terms_version: 2 }),
    row('voided', { status: 'voided', reason: 'a_reason', terms_version: 2 }),
    row('promoted', {
      status: 'reserved',
      line_no: '1',
      order_id: 'cart-2',
      stacking: 'combines',
      terms_version: 2,
      idempotency_key: null,
      idempotency_answer: null,
    }),
  ];
  const byId = (a: { redemption_id: unknown }, b: { redemption_id: unknown }) =>
    String(a.redemption_id) < String(b.redemption_id) ? -1 : 1;
  expect(await store.redemptions(campaign)).toEqual(expected.sort(byId));
  expect(await store.tickets(campaign)).toEqual([
    {
      line_no: 1,
      user_id: 'promoted',
      qty: 1,
      status: 'promoted',
      reservation_id: ids.promoted,
      order_id: 'cart-2',
      code_no: null,
    },
    {
      line_no: 2,
      user_id: 'left',
      qty: 1,
      status: 'left',
      reservation_id: expect.any(String),
      order_id: null,
      code_no: null,
    },
    {
      line_no: 3,
      user_id: 'waiting',
      qty: 2,
      status: 'waiting',
      reservation_id: expect.any(String),
      order_id: null,
      code_no: null,
    },
  ]);
  const stock = await campaign.stock();
  const taken = Number(stock?.held) + Number(stock?.redeemed) + Number(stock?.burned);
  expect(await store.campaignRow(campaign)).toEqual({ status: 'paused', total_limit: stock?.total, taken });
  const { rows: audit } = await store.sql.query(
    'select actor, action, before, after, request_id from audit_log order by audit_id',
  );
  expect(audit).toEqual([
    {
      actor: 'tester',
      action: 'campaign.restock',
      before: { total_limit: 12 },
      after: { total_limit: stock?.total },
      request_id: 'request-1',
    },
    {
      actor: 'olga',
      action: 'campaign.pause',
      before: { status: 'open' },
      after: { status: 'paused' },
      request_id: 'request-1',
    },
  ]);
});

test('closing a campaign ends the tickets of waiting users, and no others', async () => {
  const campaign = await store.openCampaign({ totalLimit: 0 });
  await campaign.join('ann');
  await campaign.join('bob');
  await campaign.leave('ann');
  await store.persist();
  await campaign.join('cid');
  await campaign.setStatus('close');
  await store.persist();
  expect((await store.tickets(campaign)).map(({ status }) => status)).toEqual(['left', 'closed', 'closed']);
});

test('an opening moves the beginning of a sale to an earlier time, and never to a later one', async () => {
  const [hourAgo, inAnHour] = [new Date(Date.now() - 3_600_000), new Date(Date.now() + 3_600_000)];
  const beginningOf = async (startsAt: Date) => {
    const campaign = await store.openCampaign({ status: 'scheduled', startsAt });
    await campaign.setStatus('open');
    await store.persist();
    return (await store.campaigns.find(campaign.product))?.startsAt.getTime();
  };
  expect(await beginningOf(hourAgo)).toBe(hourAgo.getTime());
  const moved = await beginningOf(inAnHour);
  expect(moved).toBeLessThan(inAnHour.getTime());
  expect(moved).toBeGreaterThan(hourAgo.getTime());
});

test('Persist moves the cursor, announces how far it came and trims what is written, and nothing else', async () => {
  const campaign = await store.openCampaign();
  await campaign.take('ann');
  const upTo = await sale.journal.lastId();
  await campaign.take('bob');
  const subscriber = await connectToRedis(sale.engine.url);
  const heard: string[] = [];
  onShardMessage(subscriber, (_channel, message) => heard.push(message));
  await subscribeInShard(subscriber, keys.persisted);
  await store.persistWith({ batchEntries: 1 }).upTo(upTo);
  expect(await store.cursor.read()).toBe(upTo);
  expect((await campaign.entries()).map((entry) => 'user' in entry && entry.user)).toEqual(['bob']);
  await store.persist();
  expect(await sale.journal.backlog()).toEqual({ entries: 0, oldestMs: null });
  expect(await store.cursor.read()).toBe(await sale.journal.lastId());
  await until('both announcements have been heard', () => heard.length >= 2);
  expect(heard).toEqual([upTo, await sale.journal.lastId()]);
});

test('Persist keeps the names of idempotency records for as long as Redis has them', async () => {
  const [campaign, other] = [await store.openCampaign({ totalLimit: 1 }), await store.openCampaign()];
  await campaign.take('ann', { key: 'key|of ann' });
  await other.take('cid', { key: 'key-of-cid' });
  await campaign.join('bob', { key: 'key-of-bob' });
  await store.persist();
  const namesOf = async (...campaigns: number[]) => {
    const names: RequestName[] = [];
    for await (const some of new RequestNames(sale.redis).of(campaigns)) names.push(...some);
    return names;
  };
  const own = [
    { user: 'ann', key: 'key|of ann' },
    { user: 'bob', key: 'key-of-bob' },
  ];
  expect(await namesOf(campaign.terms.no)).toEqual(own);
  expect(await namesOf(other.terms.no, other.terms.no)).toEqual([{ user: 'cid', key: 'key-of-cid' }]);
  const [list] = await keyNames(sale.redis, `db1:r:${campaign.terms.no}:*`);
  expect(await sale.redis.pttl(String(list))).toBeGreaterThan(TEST_LIMITS.idempotencyTtlMs);
});

test('Persist writes the same range once, whenever it is asked to', async () => {
  const campaign = await store.openCampaign({ perUserLimit: 2 });
  const id = await campaign.take('ann');
  const range = await sale.journal.lastId();
  await store.persistWith().upTo(range);
  await campaign.confirm(id);
  await campaign.take('ann');
  await store.persist();
  const [before, cursor] = [await rowsOf(store, campaign), await store.cursor.read()];
  await store.persistWith().upTo(range);
  await store.persist();
  expect(await rowsOf(store, campaign)).toEqual(before);
  expect(await store.cursor.read()).toBe(cursor);
});

test('Persist reads the history that began while it waited for the cursor', async () => {
  await store.sql.query('begin');
  await store.sql.query('select 1 from journal_cursor for update');
  const waiting = store.database.transaction(async (_client, results) => lockedCursor(results), lockWithHistory(0));
  const waits = `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query like 'begin;% select 1 from journal_cursor%'`;
  await until('it waits', async () => (await store.database.query(waits)).rows.length > 0);
  const begun = await store.sql.query(
    `insert into journal_histories (generation, server, after_id, reason)
     select max(generation) + 1, 'other', '0-0', 'test' from journal_histories returning generation`,
  );
  await store.sql.query('commit');
  expect((await waiting).generation).toBe(Number(begun.rows[0].generation));
  await store.sql.query('delete from journal_histories where generation = $1', [begun.rows[0].generation]);
});

test('Persist writes once when it dies after the commit, before it announces and trims', async () => {
  const campaign = await store.openCampaign({ refundPolicy: 'burn', perUserLimit: 2 });
  const id = await campaign.take('ann');
  await campaign.confirm(id);
  await campaign.setStatus('pause');
  class DyingJournal extends Journal {
    override announcePersisted(): Promise<void> {
      return Promise.reject(new Error('killed'));
    }
    override trim(): Promise<void> {
      return Promise.reject(new Error('killed'));
    }
  }
  await expect(store.persist(store.persistWith({ journal: new DyingJournal(sale.redis) }))).rejects.toThrow('killed');
  expect((await campaign.entries()).length).toBe(3);
  const before = await rowsOf(store, campaign);
  await campaign.setStatus('resume');
  await store.persist();
  const after = await rowsOf(store, campaign);
  expect(after.redemptions).toEqual(before.redemptions);
  expect(after.audit).toEqual([...before.audit, expect.objectContaining({ action: 'campaign.resume' })]);
  expect(await campaign.entries()).toEqual([]);
});

test('Persist leaves the same rows however the journal is cut into batches', async () => {
  const campaign = await store.openCampaign({ latePayment: 'reacquire', totalLimit: 12 });
  await liveThrough(campaign);
  const journal = await sale.redis.dumpBuffer(keys.journal);
  const written: object[] = [];
  for (const batchEntries of [1, 2, 3, 7, 500]) {
    await sale.redis.restore(keys.journal, 0, journal, 'REPLACE');
    const other = await startPersistence(sale);
    const copy = await other.storeCampaign({ latePayment: 'reacquire', totalLimit: 12 });
    await setNumber(other.sql, copy, campaign.terms.no);
    await other.persist(other.persistWith({ batchEntries, database: other.database }));
    written.push(await rowsOf(other, copy));
  }
  for (const rows of written) expect(rows).toEqual(written[0]);
  expect(written[0]).toMatchObject({ campaign: { status: 'paused', taken: 6 } });
  await sale.redis.restore(keys.journal, 0, journal, 'REPLACE');
  await store.persist();
});

test('Persist records what a reservation gave back before it was voided, however the journal is cut into batches', async () => {
  const campaign = await store.openCampaign({ totalLimit: 20, maxQty: 3, refundPolicy: 'burn' });
  /** A reservation that gives back one unit before it is paid and one after that, and is voided. */
  const live = async (user: string, batches: 'one' | 'many') => {
    const id = await campaign.take(user, { qty: 3 });
    const steps = [
      () => campaign.release(id, null, '', '', 2),
      () => campaign.confirm(id),
      () => campaign.refund(id, '', 1),
      () => campaign.void(id, 'returns', 'a_reason'),
    ];
    for (const step of steps) {
      await step();
      if (batches === 'many') await store.persist();
    }
    await store.persist();
    return store.redemption(id);
  };
  const expected = { status: 'voided', qty: 1, released_qty: 1, refunded_qty: 1, burned_qty: 0 };
  expect(await live('ann', 'many')).toMatchObject({ ...expected, reduced_at: expect.any(Date) });
  expect(await live('bob', 'one')).toMatchObject({ ...expected, reduced_at: expect.any(Date) });
});

test('Persist writes once when several workers are asked at the same time', async () => {
  const campaign = await store.openCampaign({ totalLimit: 300 });
  const ids = await Promise.all(Array.from({ length: 300 }, (_, i) => campaign.take(`user-${i}`)));
  await Promise.all(
    ids.map((id, i) => (i % 3 === 0 ? campaign.confirm(id) : i % 3 === 1 ? campaign.release(id) : null)),
  );
  const workers = Array.from({ length: 4 }, (_, i) =>
    store.persistWith({ batchEntries: 40 + 7 * i, database: connectDatabase(store.url) }),
  );
  // Rows of the audit log have no name of their own that would keep a second one out.
  for (let i = 0; i < 20; i += 1) await campaign.restock(1, { request: `restock-${i}` });
  const to = await sale.journal.lastId();
  await Promise.all(workers.flatMap((worker) => [worker.upTo(to), worker.upTo(to)]));
  const { rows } = await store.sql.query<{ status: string; count: number }>(
    'select status, count(*)::int from redemptions where campaign_id = $1 group by status order by status',
    [campaign.terms.id],
  );
  expect(rows).toEqual([
    { status: 'redeemed', count: 100 },
    { status: 'released', count: 100 },
    { status: 'reserved', count: 100 },
  ]);
  expect(await store.campaignRow(campaign)).toMatchObject({ taken: 200, total_limit: 320 });
  const { rows: audit } = await store.sql.query(
    'select request_id from audit_log where campaign_id = $1 order by audit_id',
    [campaign.terms.id],
  );
  expect(audit.map(({ request_id }) => request_id)).toEqual(Array.from({ length: 20 }, (_, i) => `restock-${i}`));
  expect(await store.cursor.read()).toBe(to);
});

async function setNumber(sql: pg.Client, campaign: TestCampaign, no: number): Promise<void> {
  await sql.query('alter table campaigns alter column no drop identity');
  await sql.query('update campaigns set no = $1 where campaign_id = $2', [no, campaign.terms.id]);
}
