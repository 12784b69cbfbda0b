import { expect, test } from '@jest/globals';
import { ClaimErasure } from '../../shared/archive/claim-erasure.js';
import { Metrics } from '../../shared/observability/metrics.js';
import { UserRows } from '../../shared/postgres/user-rows.js';
import { WebhookEndpoints } from '../../shared/postgres/webhook-endpoints.js';
import { EventStream } from '../../shared/redis/event-stream.js';
import { keys } from '../../shared/redis/keys.js';
import { UserRecords } from '../../shared/sale/user-records.js';
import { Outbox } from '../../worker/publish-outbox/outbox.js';
import { sweepOutbox } from '../../worker/publish-outbox/publish.js';
import { ExpiredData } from '../../worker/retention/expired-data.js';
import { type RetentionDeps, removeExpired } from '../../worker/retention/retention.js';
import { TestArchive } from '../harness/archive.js';
import type { TestCampaign } from '../harness/campaign.js';
import { startPersistence } from '../harness/persistence.js';
import { startSale } from '../harness/sale.js';
import { keysWith, tablesWith } from '../harness/stored-text.js';

/** What is older than the settings allow is removed, in bounded runs. */
const sale = await startSale();
const store = await startPersistence(sale);
const archive = new TestArchive(sale, store);
const { sql, database } = store;

const stream = new EventStream(sale.store.scripts, 1_000_000);
const outbox = new Outbox(database);
/** Appends all events of Postgres to the stream. */
const publish = () =>
  sweepOutbox({
    ...{ outbox, stream, endpoints: new WebhookEndpoints(database), metrics: new Metrics(false), log: store.log },
    source: '/tests',
    wake: async () => {},
    limits: { publishBatch: 100 },
  });
const eventsOf = async (text: string) =>
  (await sale.redis.xrange(keys.events, '-', '+')).filter((entry) => JSON.stringify(entry).includes(text)).length;

const KEPT = { personalDataDays: 0, auditDays: 0, webhookAttemptsDays: 0, paymentEventsDays: 90 };
const LIMITS = { pruneBatch: 2, pruneBatches: 10, users: 2, runMs: 60_000, publishWaitMs: 100 };

function retention(keep: Partial<typeof KEPT>, parts: Partial<RetentionDeps> = {}): RetentionDeps {
  const rows = new UserRows(database, async (client) => void (await store.cursor.lock(client)));
  return {
    keep: { ...KEPT, ...keep },
    expired: new ExpiredData(database),
    claims: new ClaimErasure({ rows, recordsOf: () => new UserRecords(sale.store.scripts) }),
    stream,
    lastEvent: () => rows.lastEvent(),
    isArchived: async (product) => (await sale.store.reader.archived(product)) !== null,
    log: store.log,
    limits: LIMITS,
    ...parts,
  };
}

/** Four users who paid, one who released and one who left the line. @returns their reservations by user */
async function sold(prefix: string): Promise<{ campaign: TestCampaign; ids: Map<string, string> }> {
  const campaign = await store.openCampaign({ totalLimit: 4, perUserLimit: 2 });
  const ids = new Map<string, string>();
  for (const name of ['ann', 'bob', 'cid', 'dan']) {
    ids.set(name, await campaign.take(`${prefix}-${name}`, { key: `${campaign.product}-${name}` }));
    await campaign.confirm(String(ids.get(name)));
  }
  await campaign.join(`${prefix}-eve`);
  await campaign.leave(`${prefix}-eve`);
  await store.persist();
  await publish();
  return { campaign, ids };
}

const age = ({ product }: TestCampaign, days: number) =>
  sql.query('update campaigns set updated_at = now() - make_interval(days => $2) where product_id = $1', [
    product,
    days,
  ]);

// The first test: entries are deleted in the order of their numbers, which is that of their times.
test('deletes old entries of the audit log in batches, which stays append-only for all others', async () => {
  const entries = () => sql.query(`select at < now() - interval '1 day' as old from audit_log where actor = 'past'`);
  const insert = (days: number) =>
    sql.query(`insert into audit_log (at, actor, action) values (now() - make_interval(days => $1), 'past', 'test')`, [
      days,
    ]);
  for (const days of [12, 11, 11, 11, 11]) await insert(days);
  await insert(0);
  await removeExpired(retention({}));
  expect((await entries()).rows).toHaveLength(6);
  await removeExpired(retention({ auditDays: 10 }));
  expect((await entries()).rows).toEqual([{ old: false }]);
  await expect(sql.query('delete from audit_log')).rejects.toThrow('append-only');
  await expect(sql.query(`update audit_log set actor = 'x'`)).rejects.toThrow('append-only');
});

test('replaces the users of campaigns that closed long ago, keeps their counts, and leaves all others alone', async () => {
  const [old, young, open] = [await sold('old'), await sold('young'), await sold('open')];
  const returning = await archive.closeAndArchive(old.campaign);
  await archive.closeAndArchive(young.campaign);
  await sql.query(
    `insert into codes (code, campaign_id, code_no, user_id)
     select $2 || n, campaign_id, n, case n when 1 then 'old-ann' when 2 then 'old-fay' when 3 then 'erased-zoe' end
     from campaigns, generate_series(1, 4) n where product_id = $1`,
    [old.campaign.product, 'OLD'],
  );
  await age(old.campaign, 31);
  await age(open.campaign, 31);
  await publish();
  await removeExpired(retention({}));
  expect(await tablesWith(sql, 'old-ann')).toMatchObject({ redemptions: 1 });
  // A recalled user is in Redis again.
  expect(await returning.standing('old-ann')).toMatchObject({ status: 'redeemed' });
  await removeExpired(retention({ personalDataDays: 30 }));
  const { rows: bound } = await sql.query("select code_no, user_id from codes where code like 'OLD%' order by code_no");
  expect(bound.map(({ user_id }) => user_id && /^erased-[0-9a-f-]{36}$/.test(user_id))).toEqual([
    true,
    true,
    true,
    null,
  ]);
  for (const name of ['ann', 'bob', 'cid', 'dan', 'eve', 'fay']) {
    expect([name, await tablesWith(sql, `old-${name}`), await keysWith(sale.redis, `old-${name}|`)]).toEqual([
      name,
      {},
      [],
    ]);
    if (name === 'fay') continue;
    expect(await tablesWith(sql, `young-${name}`)).not.toEqual({});
    expect(await tablesWith(sql, `open-${name}`)).not.toEqual({});
  }
  const { rows } = await sql.query(
    `select user_id, idempotency_key, idempotency_answer, device_fp from redemptions join campaigns using (campaign_id)
     where product_id = $1`,
    [old.campaign.product],
  );
  expect(new Set(rows.map(({ user_id }) => user_id)).size).toBe(4);
  expect(
    rows.every(({ user_id, ...personal }) => /^erased-/.test(user_id) && !Object.values(personal).some(Boolean)),
  ).toBe(true);
  expect(await store.verdictOf(old.campaign)).toMatchObject({ confirmed: 4, lost: 0, duplicated: 0, drift: 0 });
  expect(await returning.refund(String(old.ids.get('bob')))).toMatchObject({ kind: 'refunded' });
  const before = store.log.lines.length;
  await removeExpired(retention({ personalDataDays: 30 }));
  expect(store.log.lines).toHaveLength(before);
});

test('removes the users of such a campaign from the event stream, once all their events are in it', async () => {
  const [old, open] = [await sold('told'), await sold('kept')];
  await archive.closeAndArchive(old.campaign);
  await store.persist();
  await age(old.campaign, 31);
  const all = await eventsOf(old.campaign.product);
  expect(await eventsOf('told-')).toBeGreaterThanOrEqual(8);
  // The end of the campaign is not published yet.
  const removed = async () =>
    (
      await sql.query('select personal_data_removed_at is not null as done from campaigns where product_id = $1', [
        old.campaign.product,
      ])
    ).rows[0].done;
  await removeExpired(retention({ personalDataDays: 30 }));
  expect([await removed(), await eventsOf(old.campaign.product)]).toEqual([false, all]);
  await publish();
  await removeExpired(retention({ personalDataDays: 30 }));
  expect([await removed(), await eventsOf('told-')]).toEqual([true, 0]);
  // Its own events have no users, and events of other campaigns stay.
  expect(await eventsOf(old.campaign.product)).toBeGreaterThan(0);
  expect(await eventsOf('kept-')).toBeGreaterThanOrEqual(8);
  expect(open.ids.size).toBe(4);
});

test('continues where an interrupted run ended', async () => {
  const { campaign } = await sold('part');
  await archive.closeAndArchive(campaign);
  await age(campaign, 31);
  const whole = retention({ personalDataDays: 30 });
  let users = 0;
  const claims = {
    erase: async (...args: Parameters<ClaimErasure['erase']>) => {
      users += 1;
      if (users === 4) throw new Error('killed');
      return whole.claims.erase(...args);
    },
  } as ClaimErasure;
  await expect(removeExpired({ ...whole, claims })).rejects.toThrow('killed');
  expect(await tablesWith(sql, 'part-ann')).toEqual({});
  expect(await tablesWith(sql, 'part-dan')).not.toEqual({});
  await removeExpired(whole);
  expect(await tablesWith(sql, 'part-')).toEqual({});
});

test('deletes old attempts to deliver events', async () => {
  await sql.query(
    `insert into webhook_endpoints (endpoint_id, url, secrets, last_seq) values (gen_random_uuid(), 'https://a.example', '{x}', 0)`,
  );
  for (const days of [9, 8, 8, 0]) {
    await sql.query(
      `insert into webhook_attempts (endpoint_id, event_id, type, subject, attempted_at, delivered, duration_ms)
       select endpoint_id, gen_random_uuid(), 't', 's', now() - make_interval(days => $1), true, 1 from webhook_endpoints`,
      [days],
    );
  }
  const left = async () => (await sql.query('select 1 from webhook_attempts')).rowCount;
  await removeExpired(retention({}));
  expect(await left()).toBe(4);
  await removeExpired(retention({ webhookAttemptsDays: 7 }));
  expect(await left()).toBe(1);
});
