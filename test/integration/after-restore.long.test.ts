import { afterEach, expect, test } from '@jest/globals';
import type { Findings } from '../../commands/reconcile/findings.js';
import { isWhole, reportOf } from '../../commands/reconcile/report.js';
import { restoreTogether } from '../../commands/reconcile/restore.js';
import { ClaimErasure } from '../../shared/archive/claim-erasure.js';
import { cloudEvent } from '../../shared/contracts/events.js';
import type { CampaignNo, IdempotencyKey, UserId } from '../../shared/domain/ids.js';
import { ADVISORY_LOCKS } from '../../shared/postgres/advisory-locks.js';
import { newPseudonym } from '../../shared/postgres/erasures.js';
import { UserRows } from '../../shared/postgres/user-rows.js';
import { connectForSubscription } from '../../shared/redis/connections.js';
import { readEpoch, writeEpoch } from '../../shared/redis/epoch.js';
import { EventStream } from '../../shared/redis/event-stream.js';
import { keys } from '../../shared/redis/keys.js';
import { SaleStore } from '../../shared/sale/sale-store.js';
import { UnpersistedPromises } from '../../shared/sale/unpersisted-promises.js';
import { UserRecords } from '../../shared/sale/user-records.js';
import { Outbox } from '../../worker/publish-outbox/outbox.js';
import { restoreCampaign } from '../../worker/recovery/restore-campaign.js';
import { Breaking } from '../harness/breaking-database.js';
import type { TestCampaign } from '../harness/campaign.js';
import { atEnd } from '../harness/cleanup.js';
import { HOUR_MS, laterBy } from '../harness/moved-clock.js';
import { startPersistence } from '../harness/persistence.js';
import { goBack, takeBackup } from '../harness/postgres-back.js';
import { restorePostgres } from '../harness/restore-postgres.js';
import { startSale, TEST_LIMITS } from '../harness/sale.js';
import { until } from '../harness/until.js';

/** Postgres is set back while Redis goes on; the command makes it whole. */
const sale = await startSale();
const store = await startPersistence(sale);
const stream = new EventStream(sale.store.scripts, 100_000);
const parts = {
  redis: sale.redis,
  journal: sale.journal,
  stream,
  database: store.database,
  cursor: store.cursor,
};
const CLEAN = { lost: 0, duplicated: 0, over_cap: 0, drift: 0, differences: [] };

afterEach(async () => {
  await sale.expectConsistent();
});

/** Runs the command, and then a worker, which goes on where the journal begins. */
async function repair(dryRun = false): Promise<Findings> {
  const findings = await restorePostgres(parts, { dryRun, settleMs: 50 });
  if (!dryRun) await store.persist();
  return findings;
}
const of = (findings: Findings, { product }: TestCampaign) =>
  findings.campaigns.find((campaign) => campaign.product === product);

async function expectWhole(campaign: TestCampaign): Promise<void> {
  expect(await store.verdictOf(campaign)).toMatchObject(CLEAN);
  const { rows } = await store.sql.query('select * from journal_rejects');
  expect(rows).toEqual([]);
}

/** The events of units that were given back, without their times. */
const reductionsOf = async ({ terms }: TestCampaign) =>
  (
    await store.sql.query(
      `select event_id, subject, data - 'reason' as data from outbox_events
       where campaign_id = $1 and type = 'dev.doorbuster.redemption.reduced.v1' order by event_id`,
      [terms.id],
    )
  ).rows;

/** Publishes events as the worker does. */
async function publish(): Promise<void> {
  const outbox = new Outbox(store.database);
  const range = { after: await stream.lastSeq(), upTo: await outbox.lastSeq(), types: null };
  const events = await outbox.read(range, 10_000);
  if (events.length > 0) {
    await stream.append(events.map((event) => ({ ...event, json: cloudEvent(event, 'tests') })));
  }
}
const streamed = async () => {
  const ids: string[] = [];
  for await (const events of stream.entries(1_000)) ids.push(...events.map(({ id }) => id));
  return ids;
};

/** Redis loses the campaign, and a worker fills it again from Postgres. What it has then, without what no one keeps. */
async function afterLossOfRedis(campaign: TestCampaign): Promise<object> {
  const stored = await store.campaigns.find(campaign.product);
  if (!stored) throw new Error('the campaign is not in Postgres');
  const { database, cursor, log } = store;
  const { idempotencyTtlMs } = TEST_LIMITS;
  const parts = { database, cursor, log, sale: sale.store, idempotencyTtlMs };
  await sale.fill(async (token) => restoreCampaign(parts, stored, await sale.nowMs(), token));
  return whatStays(await campaign.inRedis());
}
function whatStays({ fields, reservations, line, deadlines, usedCodes }: Awaited<ReturnType<TestCampaign['inRedis']>>) {
  const { no, status, version, total, free, held, redeemed, burned, waiting, per_user_limit, hold_ms } = fields;
  const kept = { no, status, version, total, free, held, redeemed, burned, waiting, per_user_limit, hold_ms };
  return { kept, reservations, line, deadlines, usedCodes };
}

test('reconcile --after-restore brings back a deadline that was extended', async () => {
  const campaign = await store.openCampaign({ totalLimit: 2, maxQty: 2 });
  const whole = await campaign.take('amy');
  const part = await campaign.take('ben');
  await store.persist();
  const backup = await takeBackup(store.sql);
  for (const reservation of [whole, part]) await campaign.extend(reservation, 300_000);
  await store.persist();
  await goBack(store.sql, backup);
  expect(of(await repair(), campaign)).toMatchObject({ changed: { 'reserved, later deadline': 2 }, leftAlone: 0 });
  const { rows } = await store.sql.query(
    `select redemption_id as id, (extract(epoch from pay_before) * 1000)::float8 as "dueMs" from redemptions where campaign_id = $1`,
    [campaign.terms.id],
  );
  for (const { id, dueMs } of rows) expect(dueMs).toBe((await campaign.reservation(id))?.dueMs);
  await expectWhole(campaign);
  expect(of(await repair(), campaign)?.changed ?? {}).toEqual({});
});

test('reconcile --after-restore keeps that a reservation was extended whose row is lost', async () => {
  const campaign = await store.openCampaign({ totalLimit: 2 });
  const backup = await takeBackup(store.sql);
  const [extended, plain] = [await campaign.take('amy'), await campaign.take('ben')];
  await campaign.extend(extended, 300_000);
  const dueOf = async (id: string) => (await campaign.reservation(id))?.dueMs ?? 0;
  const due = await dueOf(extended);
  await store.persist();
  await goBack(store.sql, backup);
  await repair();
  await expectWhole(campaign);
  await afterLossOfRedis(campaign);
  expect(await campaign.extend(extended, 300_000)).toMatchObject({ kind: 'extended', dueMs: due });
  const before = await dueOf(plain);
  expect(await campaign.extend(plain, 300_000)).toMatchObject({ kind: 'extended', dueMs: before + 300_000 });
});

test.each(['return', 'burn'] as const)(
  'reconcile --after-restore knows a late payment whose refund is in the journal: %s',
  async (refundPolicy) => {
    const campaign = await store.openCampaign({ totalLimit: 2, refundPolicy, latePayment: 'reacquire' });
    const [id, other] = [await campaign.take('ann'), await campaign.take('ben')];
    await campaign.setDeadline(id, (await sale.nowMs()) - 1);
    await campaign.expire();
    await store.persist();
    const backup = await takeBackup(store.sql);
    await campaign.confirm(id, 'pay-late');
    await store.persist();
    await campaign.refund(id);
    await goBack(store.sql, backup);
    expect(of(await repair(), campaign)).toMatchObject({ changed: { 'expired → reacquired': 1 }, leftAlone: 0 });
    const { rows } = await store.sql.query(
      'select status, burned from redemptions where redemption_id = any($1) order by status',
      [[id, other]],
    );
    expect(rows).toEqual([
      { status: 'refunded', burned: refundPolicy === 'burn' },
      { status: 'reserved', burned: false },
    ]);
    await expectWhole(campaign);
  },
);

test('reconcile --after-restore keeps users erased, also one who came back under the erased id and bought again', async () => {
  const campaign = await store.openCampaign({ totalLimit: 9 });
  const other = await store.openCampaign({ totalLimit: 9 });
  for (const user of ['gil', 'gus']) await campaign.confirm(await campaign.take(user));
  await store.persist();
  const backup = await takeBackup(store.sql);
  const rows = new UserRows(store.database, async (client) => void (await store.cursor.lock(client)));
  const erasure = new ClaimErasure({ rows, recordsOf: () => new UserRecords(sale.store.scripts) });
  const named = { id: campaign.terms.id, productId: campaign.product };
  const run = { proceed: () => {}, changed: async () => {} };
  const pseudonyms = { gil: newPseudonym(), gus: newPseudonym() };
  for (const [user, pseudonym] of Object.entries(pseudonyms))
    await erasure.erase({ user: user as UserId, pseudonym }, [named], run);
  await campaign.confirm(await campaign.take('gil'));
  await other.confirm(await other.take('ida'));
  await store.persist();
  await goBack(store.sql, backup);
  expect(of(await repair(true), campaign)).toMatchObject({ erased: 2, missing: { reservations: 1, units: 1 } });
  const findings = await repair();
  expect(of(findings, campaign)).toMatchObject({ erased: 2 });
  expect(reportOf(findings, false).join('\n')).toContain('users who were erased since: 2');
  const { rows: found } = await store.sql.query(
    'select user_id, device_fp, idempotency_key from redemptions where campaign_id = $1 order by redemption_id',
    [campaign.terms.id],
  );
  expect(found.map(({ user_id }) => user_id)).toEqual([pseudonyms.gil, pseudonyms.gus, 'gil']);
  expect(found.slice(0, 2).flatMap(({ device_fp, idempotency_key }) => [device_fp, idempotency_key])).toEqual(
    Array(4).fill(null),
  );
  for (const one of [campaign, other]) await expectWhole(one);
  expect(of(await repair(), campaign)?.erased ?? 0).toBe(0);
});

test('reconcile --after-restore brings back a restock, sales, payments and places in line that a restore has lost', async () => {
  const campaign = await store.openCampaign({ totalLimit: 3 });
  const early = [await campaign.take('amy'), await campaign.take('ben'), await campaign.take('cem')];
  await store.persist();
  const backup = await takeBackup(store.sql);
  await campaign.restock(4);
  const ids = [];
  for (const user of ['ann', 'bob', 'cid', 'dan']) ids.push(await campaign.take(user, { key: `key-of-${user}` }));
  await campaign.confirm(String(ids[0]));
  await campaign.confirm(String(ids[1]), 'pay-2');
  for (const user of ['eve', 'fay', 'gus']) await campaign.join(user, { key: `key-of-${user}` });
  await campaign.confirm(String(early[0]));
  await store.persist();
  await publish();
  await goBack(store.sql, backup);
  // The sale goes on, and this entry is the first that the journal still has.
  await campaign.confirm(String(ids[2]), 'pay-3');
  const before = await takeBackup(store.sql);

  const found = await repair(true);
  expect(of(found, campaign)).toEqual({
    product: campaign.product,
    unknown: false,
    archived: false,
    total: { redis: 7, postgres: 3 },
    status: null,
    terms: null,
    codes: null,
    archivedLoss: { units: 0, reservations: 0 },
    missing: { reservations: 4, units: 4 },
    changed: { 'reserved → redeemed': 1 },
    places: { missing: 3, ended: 0 },
    leftAlone: 0,
    erased: 0,
    conflict: null,
  });
  expect(found).toMatchObject({ gap: true, backlog: 1 });
  expect(isWhole(found)).toBe(false);
  expect(await takeBackup(store.sql)).toEqual(before);
  expect(await sale.redis.xlen('db1:journal')).toBe(1);

  const written = await repair();
  expect(of(written, campaign)).toEqual(of(found, campaign));
  expect(await store.isCaughtUp()).toBe(true);
  expect(await store.campaignRow(campaign)).toEqual({ status: 'open', total_limit: 7, taken: 7 });
  expect(await store.bothSides(campaign, ids)).toEqual([
    ['redeemed', 'redeemed', null],
    ['redeemed', 'redeemed', null],
    ['redeemed', 'redeemed', null],
    ['reserved', 'reserved', null],
  ]);
  expect((await store.redemption(String(ids[2])))?.payment_ref).toBe('pay-3');
  expect((await store.redemption(String(ids[3])))?.idempotency_key).toBe('key-of-dan');
  expect(await store.tickets(campaign)).toMatchObject(
    ['eve', 'fay', 'gus'].map((user_id, i) => ({ line_no: i + 1, user_id, status: 'waiting', qty: 1 })),
  );
  const { rows } = await store.sql.query(
    "select before, after from audit_log where action = 'reconcile after restore'",
  );
  expect(rows).toEqual([
    { before: { status: 'open', version: 1, total_limit: 3 }, after: { status: 'open', version: 1, total_limit: 7 } },
  ]);
  await expectWhole(campaign);
  expect(isWhole(await repair(true))).toBe(true);
  // The sale and the worker go on.
  await campaign.release(String(ids[3]));
  await store.persist();
  await expectWhole(campaign);
  const standing = whatStays(await campaign.inRedis());
  expect(await afterLossOfRedis(campaign)).toEqual(standing);
  expect(await campaign.checkout('dan', { key: 'key-of-dan' })).toMatchObject({ kind: 'replayed' });
  expect(await campaign.checkout('gus', { key: 'key-of-gus' })).toMatchObject({ kind: 'replayed' });
});

test('reconcile --after-restore brings back every state, ends before beginnings, and terms before the reservations made under them', async () => {
  const campaign = await store.openCampaign({ totalLimit: 6, refundPolicy: 'burn', latePayment: 'reacquire' });
  const ids = [];
  for (const user of ['a', 'b', 'c', 'd', 'e', 'f']) ids.push(await campaign.take(user));
  const [a, b, c, d, e, f] = ids as [string, string, string, string, string, string];
  await campaign.confirm(f);
  for (const user of ['p', 'q', 'r', 's']) await campaign.join(user);
  await store.persist();
  // Each unit that comes back is taken again: only in this order does Postgres have room.
  await campaign.letDeadlinePass(b);
  const { dueMs } = (await campaign.reservation(b)) ?? {};
  await store.sql.query('update redemptions set pay_before = ms($2) where redemption_id = $1', [b, dueMs]);
  const backup = await takeBackup(store.sql);
  await campaign.release(a);
  await campaign.expire();
  await campaign.confirm(c);
  await campaign.refund(c);
  await campaign.confirm(d);
  await campaign.leave('r');
  await campaign.leave('s');
  await campaign.amend({ perUserLimit: 3, holdSeconds: 90 });
  await store.sql.query(
    'update campaigns set terms_version = 2, per_user_limit = 3, hold_seconds = 90 where campaign_id = $1',
    [campaign.terms.id],
  );
  await campaign.release(e);
  await campaign.take('f', { qty: 1 });
  await campaign.restock(3);
  await campaign.take('f');
  await campaign.confirm(b);
  await campaign.setStatus('pause');
  await store.persist();
  await goBack(store.sql, backup);
  const found = of(await repair(), campaign);
  expect(found).toMatchObject({
    total: { redis: 9, postgres: 6 },
    status: { redis: 'paused', postgres: 'open' },
    terms: { redis: 2, postgres: 1 },
    missing: { reservations: 4, units: 4 },
    changed: {
      'reserved → released': 2,
      'reserved → reacquired': 1,
      'reserved → burned': 1,
      'reserved → redeemed': 1,
    },
    places: { missing: 0, ended: 4 },
    leftAlone: 0,
  });
  await expectWhole(campaign);
  const { rows } = await store.sql.query(
    'select version, per_user_limit, hold_seconds from campaign_terms where campaign_id = $1 order by version',
    [campaign.terms.id],
  );
  expect(rows).toEqual([
    { version: 1, per_user_limit: 1, hold_seconds: 60 },
    { version: 2, per_user_limit: 3, hold_seconds: 90 },
  ]);
  expect((await store.tickets(campaign)).map(({ user_id, status }) => [user_id, status])).toEqual([
    ['p', 'promoted'],
    ['q', 'promoted'],
    ['r', 'left'],
    ['s', 'left'],
  ]);
  const standing = whatStays(await campaign.inRedis());
  expect(await afterLossOfRedis(campaign)).toEqual(standing);
});

test('reconcile --after-restore gives back units again, before the users in line who got them', async () => {
  const campaign = await store.openCampaign({ totalLimit: 12, perUserLimit: 9, refundPolicy: 'burn' });
  const take = () => campaign.take('ann', { qty: 3 });
  const [held, paid, ended] = [await take(), await take(), await take()];
  await store.persist();
  const backup = await takeBackup(store.sql);
  const made = await take();
  for (const user of ['bob', 'cid', 'dan', 'eve']) await campaign.join(user);
  await campaign.release(held, null, '', '', 2);
  await campaign.confirm(paid);
  await campaign.refund(paid, '', 1);
  await campaign.release(ended, null, '', '', 1);
  await campaign.release(ended);
  await campaign.release(made, null, '', '', 2);
  await campaign.confirm(made);
  await campaign.refund(made, '', 1);
  await store.persist();
  const rows = await store.redemptions(campaign);
  const reductions = await reductionsOf(campaign);
  expect(reductions).toHaveLength(5);
  await goBack(store.sql, backup);
  expect(of(await repair(true), campaign)).toMatchObject({
    changed: { 'reserved, fewer units': 1, 'reserved → redeemed': 1, 'reserved → released': 1 },
  });
  await repair();
  await expectWhole(campaign);
  const units = ({ redemption_id, status, qty, released_qty, refunded_qty, burned_qty }: Record<string, unknown>) => ({
    ...{ redemption_id, status, qty, released_qty, refunded_qty, burned_qty },
  });
  expect((await store.redemptions(campaign)).map(units)).toEqual(rows.map(units));
  expect(await reductionsOf(campaign)).toEqual(reductions);
  const before = await campaign.inRedis();
  expect(before.fields).toMatchObject({ free: '1', held: '6', redeemed: '2', burned: '3' });
  expect(await afterLossOfRedis(campaign)).toEqual(whatStays(before));
});

test('reconcile --after-restore distinguishes what the journal still has from what is lost', async () => {
  const campaign = await store.openCampaign({ totalLimit: 1 });
  const id = await campaign.take('ann');
  await store.persist();
  await campaign.confirm(id);
  await campaign.join('bob');
  await campaign.restock(1);
  await campaign.setStatus('pause');
  const found = await repair(true);
  expect(found).toMatchObject({ gap: false });
  expect(isWhole(found)).toBe(true);
  expect(reportOf(found, true)).toContain('Postgres lacks nothing, except entries that the journal has.');
  await repair();
  expect(await store.isCaughtUp()).toBe(true);
  expect(await store.campaignRow(campaign)).toEqual({ status: 'paused', total_limit: 2, taken: 2 });
  await expectWhole(campaign);
  const { rows } = await store.sql.query('select action, actor from audit_log where campaign_id = $1 order by action', [
    campaign.terms.id,
  ]);
  expect(rows).toMatchObject([
    { action: 'campaign.pause', actor: 'tester' },
    { action: 'campaign.restock', actor: 'tester' },
  ]);
});

test('reconcile --after-restore ends a line that was closed with its campaign', async () => {
  const campaign = await store.openCampaign({ totalLimit: 1 });
  const id = await campaign.take('ann');
  for (const user of ['bob', 'cid']) await campaign.join(user);
  await store.persist();
  const backup = await takeBackup(store.sql);
  await campaign.setStatus('close');
  await campaign.release(id);
  await store.persist();
  await goBack(store.sql, backup);
  expect(of(await repair(), campaign)).toMatchObject({
    status: { redis: 'closed', postgres: 'open' },
    places: { missing: 0, ended: 2 },
  });
  expect((await store.tickets(campaign)).map(({ status }) => status)).toEqual(['closed', 'closed']);
  await expectWhole(campaign);
});

/** Waits until Redis's clock has passed the present moment, so that what follows has another time. */
async function nextMoment(): Promise<number> {
  const now = await sale.nowMs();
  await until('the clock of Redis goes on', async () => (await sale.nowMs()) > now);
  return now;
}
const endsOf = async ({ terms }: TestCampaign) => {
  const { rows } = await store.sql.query<{ user_id: string; status: string; ended: number }>(
    `select user_id, status, (extract(epoch from ended_at) * 1000)::float8 as ended from waiting_tickets
     where campaign_id = $1 order by line_no`,
    [terms.id],
  );
  return rows;
};

test('reconcile --after-restore takes the ends of places from the journal', async () => {
  const campaign = await store.openCampaign({ totalLimit: 1 });
  const first = await campaign.take('ann');
  for (const user of ['bob', 'cid', 'dan', 'eve']) await campaign.join(user);
  await store.persist();
  const backup = await takeBackup(store.sql);
  await campaign.leave('dan');
  await store.persist();
  await goBack(store.sql, backup);
  const before = await nextMoment();
  // These entries are still in the journal; dan's is lost.
  await campaign.release(first);
  await campaign.leave('cid');
  await campaign.setStatus('close');
  const after = await nextMoment();
  await repair();
  const rows = await endsOf(campaign);
  expect(rows.map(({ user_id, status }) => [user_id, status])).toEqual([
    ['bob', 'promoted'],
    ['cid', 'left'],
    ['dan', 'left'],
    ['eve', 'closed'],
  ]);
  for (const { user_id, ended } of rows) {
    expect(ended).toBeGreaterThan(before);
    if (user_id !== 'dan') expect(ended).toBeLessThanOrEqual(after);
    else expect(ended).toBeGreaterThan(after);
  }
  await expectWhole(campaign);
});

test('reconcile --after-restore takes the times of promotions from the events', async () => {
  const campaign = await store.openCampaign({ totalLimit: 1, holdSeconds: 60 });
  const first = await campaign.take('ann');
  await campaign.join('bob');
  await store.persist();
  await publish();
  const backup = await takeBackup(store.sql);
  await campaign.release(first);
  await store.persist();
  await publish();
  const promotion = async () => {
    const { rows } = await store.sql.query<{ id: string; reserved_at: Date; ended_at: Date }>(
      `select r.redemption_id as id, r.reserved_at, t.ended_at from redemptions r
       join waiting_tickets t on t.campaign_id = r.campaign_id and t.line_no = r.line_no where r.campaign_id = $1`,
      [campaign.terms.id],
    );
    return rows;
  };
  const made = await promotion();
  expect(made).toHaveLength(1);
  // The time would be wrong if it were computed from the deadline.
  await campaign.amend({ holdSeconds: 90 });
  await goBack(store.sql, backup);
  await repair();
  expect(await promotion()).toEqual(made);
  await expectWhole(campaign);
});

test('reconcile --after-restore reports rows that Redis does not have, and leaves them alone', async () => {
  const campaign = await store.openCampaign({ totalLimit: 5 });
  const first = await campaign.take('ann');
  await store.persist();
  await store.insertByHand(campaign, { user: 'somebody' });
  await store.sql.query("update redemptions set status = 'redeemed' where redemption_id = $1", [first]);
  const before = await store.redemptions(campaign);
  const found = await repair();
  expect(of(found, campaign)).toMatchObject({ leftAlone: 2, missing: { reservations: 0, units: 0 }, changed: {} });
  expect(reportOf(found, false)).toContain('  left alone: 2 rows that Redis does not have, or has in an earlier state');
  expect(await store.redemptions(campaign)).toEqual(before);
  await store.sql.query("update redemptions set status = 'reserved' where redemption_id = $1", [first]);
  await store.sql.query('delete from redemptions where campaign_id = $1 and redemption_id <> $2', [
    campaign.terms.id,
    first,
  ]);
});

test('reconcile --after-restore creates a campaign again that Postgres does not know, under its number', async () => {
  const backup = await takeBackup(store.sql);
  const campaign = await store.openCampaign({
    totalLimit: 4,
    waitingRoom: { enabled: true, maxSize: 7, presenceSeconds: 30 },
  });
  await campaign.amend({ maxQty: 2, hasAudience: true });
  const id = await campaign.take('ann', { qty: 2, terms: 2 });
  await campaign.confirm(id);
  await campaign.take('bob', { terms: 2 });
  await store.persist();
  await goBack(store.sql, backup);
  const next = await store.storeCampaign();
  await sale.store.campaigns.load(next.terms);
  // A new campaign gets the same number, so a reservation id could mean either campaign.
  expect(next.terms.no).toBe(campaign.terms.no);
  expect(of(await repair(), campaign)).toMatchObject({ conflict: next.product, missing: { reservations: 0 } });
  await goBack(store.sql, backup);
  await sale.redis.unlink(keys.campaign(next.product));
  await sale.redis.hset(keys.directory, String(campaign.terms.no), campaign.product);
  const findings = await repair();
  expect(of(findings, campaign)).toMatchObject({ unknown: true, missing: { reservations: 2, units: 3 } });
  const stored = await store.campaigns.find(campaign.product);
  expect(stored).toMatchObject({
    no: campaign.terms.no,
    name: 'A sale',
    discount: null,
    totalLimit: 4,
    maxQty: 2,
    termsVersion: 2,
    waitingRoom: { enabled: true, maxSize: 7, presenceSeconds: 30 },
    redeemed: 2,
    held: 1,
  });
  await expectWhole(campaign);
  const later = await store.openCampaign();
  expect(later.terms.no).toBeGreaterThan(campaign.terms.no as number as CampaignNo);
});

test('reconcile --after-restore creates a campaign again whose sales began after the restore; none of them is voided', async () => {
  const backup = await takeBackup(store.sql);
  const campaign = await store.openCampaign({ totalLimit: 2 });
  // The journal has no entry in between, so there is no gap.
  await goBack(store.sql, backup);
  const ids = [await campaign.take('ann'), await campaign.take('bob')];
  await campaign.join('cid');
  await campaign.confirm(String(ids[1]));
  const behind = { name: 'PostgresBehind', productId: campaign.product, totals: null };
  for (let times = 0; times < 2; times += 1) await expect(store.persist()).rejects.toMatchObject(behind);
  expect(await campaign.stock()).toMatchObject({ total: 2, free: 0, held: 1, redeemed: 1 });
  expect(of(await repair(), campaign)).toMatchObject({ unknown: true, leftAlone: 0 });
  expect(await store.bothSides(campaign, ids)).toEqual([
    ['reserved', 'reserved', null],
    ['redeemed', 'redeemed', null],
  ]);
  await campaign.release(String(ids[0]));
  await store.persist();
  await expectWhole(campaign);
});

test('reconcile --after-restore announces the code of a campaign that Postgres lost under the lock on issuing, then its terms', async () => {
  const backup = await takeBackup(store.sql);
  const campaign = await store.openCampaign({ type: 'shared', code: 'ANNOUNCED' });
  await store.persist();
  await goBack(store.sql, backup);
  const announced: string[][] = [];
  const subscriber = connectForSubscription(sale.engine.url, () => {});
  atEnd('a subscriber', () => subscriber.disconnect());
  await subscriber.subscribe(keys.codes, keys.termsNotifications);
  subscriber.on('message', (...message) => announced.push(message));
  // As a filter does that catches up.
  await store.sql.query(`select pg_advisory_lock(${ADVISORY_LOCKS.issuing})`);
  const repairing = repair();
  await until('the repair waits for the filter', async () => {
    const { rows } = await store.sql.query(
      `select 1 from pg_locks join pg_database on pg_database.oid = database
       where datname = current_database() and objid = ${ADVISORY_LOCKS.issuing} and not granted`,
    );
    return rows.length > 0;
  });
  expect(announced).toEqual([]);
  await store.sql.query(`select pg_advisory_unlock(${ADVISORY_LOCKS.issuing})`);
  await repairing;
  await until('both are announced', () => announced.length === 2);
  expect(announced).toEqual([
    [keys.codes, 'ANNOUNCED'],
    [keys.termsNotifications, campaign.product],
  ]);
  await expectWhole(campaign);
});

test('reconcile --after-restore gives a campaign its name, discount, code and rules again, and what was changed since', async () => {
  const discount = { kind: 'percent', percent: 20 } as const;
  const rules = { audience: { attribute: 'tier', equals: 'gold' }, uniform_refusals: true };
  const kept = await store.openCampaign({ name: 'Before' }, rules);
  const backup = await takeBackup(store.sql);
  const [discountBetween, once] = [
    { kind: 'percent', percent: 70 } as const,
    { ...rules, checkout_url: 'https://a.test/' },
  ];
  await kept.amend({ name: 'Between', discount: discountBetween, rules: once });
  await kept.amend({ name: 'After', discount, timeZone: 'Asia/Tokyo', rules: { ...rules, uniform_refusals: false } });
  const created = await store.openCampaign({ name: 'First', code: 'SUMMER-1', timeZone: 'Europe/Rome' }, rules);
  await created.amend({ name: 'New', discount });
  await goBack(store.sql, backup);
  const findings = await repair();
  expect(of(findings, kept)).toMatchObject({ terms: { redis: 3, postgres: 1 } });
  expect(await store.campaigns.find(kept.product)).toMatchObject({
    id: kept.terms.id,
    name: 'After',
    timeZone: 'Asia/Tokyo',
    discount,
    rules: { ...rules, uniform_refusals: false },
  });
  expect(await store.campaigns.find(created.product)).toMatchObject({
    id: created.terms.id,
    name: 'New',
    code: 'SUMMER-1',
    timeZone: 'Europe/Rome',
    discount,
    rules,
  });
  const { rows } = await store.sql.query('select code, code_no from codes where campaign_id = $1', [created.terms.id]);
  expect(rows).toEqual([{ code: 'SUMMER1', code_no: 0 }]);
  const versionsOf = async ({ terms }: TestCampaign) => {
    const found = await store.sql.query(
      'select name, discount, checkout_url from campaign_terms where campaign_id = $1 order by version',
      [terms.id],
    );
    return found.rows.map(Object.values);
  };
  expect(await versionsOf(kept)).toEqual([
    ['Before', null, null],
    ['Between', discountBetween, 'https://a.test/'],
    ['After', discount, null],
  ]);
  expect(await versionsOf(created)).toEqual([
    ['First', null, null],
    ['New', discount, null],
  ]);
});

test('reconcile --after-restore gives versions of the terms that Redis has forgotten the next terms that it has', async () => {
  const campaign = await store.openCampaign({ maxQty: 1 });
  const backup = await takeBackup(store.sql);
  for (let maxQty = 2; maxQty <= 25; maxQty += 1) await campaign.amend({ name: `Version ${maxQty}`, maxQty });
  await goBack(store.sql, backup);
  await repair();
  const { rows } = await store.sql.query('select name from campaign_terms where campaign_id = $1 order by version', [
    campaign.terms.id,
  ]);
  const kept = Array.from({ length: 21 }, (_, i) => `Version ${i + 5}`);
  expect(rows.map(({ name }) => name)).toEqual(['A sale', 'Version 5', 'Version 5', 'Version 5', ...kept]);
  expect(await store.campaigns.find(campaign.product)).toMatchObject({ maxQty: 25, termsVersion: 25 });
});

test('reconcile --after-restore knows payments and orders again whose entries are gone', async () => {
  const campaign = await store.openCampaign(
    { totalLimit: 2, perUserLimit: 2, waitingRoom: { enabled: true, maxSize: 7, presenceSeconds: null } },
    { stacking: { exclusive: true } },
  );
  const backup = await takeBackup(store.sql);
  const paid = await campaign.use('ann', 0, { order: 'cart-1' });
  for (const payment of ['pay-1', 'pay-2', 'pay-3']) await campaign.confirm(paid, payment);
  await campaign.use('bob', 0, { order: 'cart-1' });
  await campaign.redeem('cid', 0, { order: 'cart-1' });
  await store.persist();
  await goBack(store.sql, backup);
  await repair();
  const { rows } = await store.sql.query(
    'select user_id, payment_ref, stacking from redemptions where campaign_id = $1 order by redemption_id',
    [campaign.terms.id],
  );
  expect(rows).toEqual([
    { user_id: 'ann', payment_ref: 'pay-1', stacking: 'exclusive' },
    { user_id: 'bob', payment_ref: null, stacking: 'exclusive' },
  ]);
  const { rows: further } = await store.sql.query(
    'select payment_ref from duplicate_payments where reservation_id = $1 order by payment_ref',
    [paid],
  );
  expect(further.map(({ payment_ref }) => payment_ref)).toEqual(['pay-2', 'pay-3']);
  const { rows: places } = await store.sql.query(
    'select user_id, stacking from waiting_tickets where campaign_id = $1',
    [campaign.terms.id],
  );
  expect(places).toEqual([{ user_id: 'cid', stacking: 'exclusive' }]);
});

test.each([
  ['the worker is three hours ahead', 3, 0],
  ['the worker is ten hours ahead', 10, 0],
  ['the command is ten hours behind', 0, -10],
])('reconcile --after-restore keeps idempotency keys when the clock of %s', async (_, workerHours, commandHours) => {
  const campaign = await store.openCampaign();
  const backup = await takeBackup(store.sql);
  const key = `key-in-${campaign.product}`;
  await campaign.take('ann', { key });
  await laterBy(workerHours * HOUR_MS, () => store.persist());
  await goBack(store.sql, backup);
  await laterBy(commandHours * HOUR_MS, () => repair());
  const [row] = await store.redemptions(campaign);
  expect(row).toMatchObject({
    idempotency_key: expect.stringContaining(key),
    idempotency_answer: expect.stringContaining('ann'),
  });
  await expectWhole(campaign);
});

test('reconcile --after-restore gives no event a number that was used before, and every event reaches the stream', async () => {
  const campaign = await store.openCampaign({ totalLimit: 9 });
  await campaign.take('ann');
  await store.persist();
  await publish();
  const backup = await takeBackup(store.sql);
  const lost = await campaign.take('bob');
  await campaign.confirm(lost);
  await campaign.take('cid');
  await store.persist();
  await publish();
  const told = await streamed();
  await goBack(store.sql, backup);
  // An older worker wrote on: its event has a number that the stream had before, so it was never published.
  await store.sql.query(
    `insert into outbox (event_id, type, subject, campaign_id, product_id, occurred_at, data)
     select gen_random_uuid(), 'dev.doorbuster.campaign.drifted.v1', 'x', campaign_id, product_id, now(), '{}'
     from campaigns where no = $1`,
    [campaign.terms.no],
  );
  const { rows: unseen } = await store.sql.query("select event_id from outbox_events where subject = 'x'");
  await publish();
  expect(await streamed()).toEqual(told);
  const last = await stream.lastSeq();
  const fresh = await campaign.take('dan');
  expect((await repair()).renumberedEvents).toBe(1);
  await publish();
  const after = await streamed();
  expect(after.slice(0, told.length)).toEqual(told);
  expect(after).toContain(unseen[0]?.event_id);
  const { rows } = await store.sql.query(
    'select seq::int, type, event_id from outbox_events where subject = $1 order by seq',
    [fresh],
  );
  expect(rows.map(({ type }) => type)).toEqual(['dev.doorbuster.redemption.reserved.v1']);
  expect(rows[0]?.seq).toBeGreaterThan(last);
  expect(after).toContain(rows[0]?.event_id);
  // What consumers had before is repeated under the same ids.
  const again = after.slice(told.length).filter((id) => told.includes(id));
  expect(again).toHaveLength(3);
});

test.each([
  ['that the stream skipped', async () => undefined],
  ['that the stream has trimmed', async () => sale.redis.xtrim(keys.events, 'MAXLEN', 1)],
])('reconcile --after-restore publishes an event with a number %s', async (_, trim) => {
  const campaign = await store.openCampaign({ totalLimit: 9 });
  await campaign.take('ann');
  await store.persist();
  await publish();
  const backup = await takeBackup(store.sql);
  // As a transaction does that is rolled back.
  await store.sql.query("select nextval(pg_get_serial_sequence('outbox', 'seq'))");
  await campaign.confirm(await campaign.take('bob'));
  await store.persist();
  await publish();
  await trim();
  await goBack(store.sql, backup);
  // A worker wrote on, of another shard.
  await store.sql.query(
    `insert into outbox (event_id, type, subject, campaign_id, product_id, occurred_at, data)
     select gen_random_uuid(), 'dev.doorbuster.campaign.drifted.v1', 'of ' || product_id, campaign_id, product_id, now(), '{}'
     from campaigns where no = $1`,
    [campaign.terms.no],
  );
  const { rows: unseen } = await store.sql.query('select event_id from outbox_events where subject = $1', [
    `of ${campaign.product}`,
  ]);
  expect((await repair()).renumberedEvents).toBe(1);
  await publish();
  expect(await streamed()).toContain(unseen[0]?.event_id);
  expect((await repair()).renumberedEvents).toBe(0);
});

test('reconcile --after-restore records the history that Redis is in', async () => {
  await store.sql.query('delete from journal_histories');
  await repair();
  const { rows } = await store.sql.query('select generation, reason, after_id, opened_at from journal_histories');
  const [generation] = String(await sale.redis.get(keys.epoch)).split('|');
  expect(rows).toEqual([
    { generation, reason: 'postgres restored', after_id: await sale.journal.lastId(), opened_at: expect.any(Date) },
  ]);
});

test('reconcile --after-restore refuses to write when Redis is the one that is behind', async () => {
  const committed = await store.cursor.read();
  await store.sql.query("update journal_cursor set last_id = '9999999999999-5'");
  const before = await takeBackup(store.sql);
  await expect(repair()).rejects.toMatchObject({ name: 'RedisBehind' });
  expect(await takeBackup(store.sql)).toEqual(before);
  await store.sql.query('update journal_cursor set last_id = $1', [committed]);
  await expect(sale.withoutEpoch(() => repair())).rejects.toMatchObject({ name: 'EngineUnavailable' });
});

test('reconcile --after-restore refuses to write when another Redis server continues the journal', async () => {
  const campaign = await store.openCampaign({ totalLimit: 2 });
  await store.persist();
  const { rows } = await store.sql.query('select max(generation) + 1 as next from journal_histories');
  await campaign.take('amy');
  // A worker verifies another server, which lacks this unit.
  await store.sql.query(
    `insert into journal_histories (generation, server, after_id, reason, shard)
     select $1, 'another server', last_id, 'Redis restarted or failed over', 0 from journal_cursor`,
    [rows[0].next],
  );
  const before = await takeBackup(store.sql);
  await expect(repair()).rejects.toMatchObject({ name: 'Superseded' });
  expect(await takeBackup(store.sql)).toEqual(before);
  await store.sql.query('delete from journal_histories where generation = $1', [rows[0].next]);
  await repair();
  await expectWhole(campaign);
});

test('reconcile --after-restore leaves the gap when a new history of Redis begins before it ends', async () => {
  const campaign = await store.openCampaign({ totalLimit: 2 });
  await campaign.take('amy');
  const before = await store.cursor.read();
  const epoch = await readEpoch(sale.redis);
  const cursor: typeof parts.cursor = Object.create(parts.cursor);
  cursor.lockWrites = async (client) => {
    await sale.beginHistory();
    await parts.cursor.lockWrites(client);
  };
  const repairing = restorePostgres({ ...parts, cursor }, { dryRun: false, settleMs: 50 });
  await expect(repairing).rejects.toMatchObject({ name: 'Superseded' });
  expect(await store.cursor.read()).toBe(before);
  if (epoch) await writeEpoch(sale.redis, epoch);
  await repair();
  await store.persist();
  await expectWhole(campaign);
});

test('reconcile --after-restore that is interrupted, wherever that is, leaves the gap, and can be repeated', async () => {
  const campaign = await store.openCampaign({ totalLimit: 2 });
  const first = await campaign.take('ann');
  await store.persist();
  const backup = await takeBackup(store.sql);
  await campaign.restock(1);
  await campaign.confirm(first);
  await campaign.release(await campaign.take('bob'));
  for (const user of ['cid', 'dan']) await campaign.take(user);
  await campaign.join('eve');
  await store.persist();
  await goBack(store.sql, backup);
  await campaign.join('fay', { key: 'a-new-key' });
  const cursor = await store.cursor.read();
  const breaking = Breaking.of(store.url);
  let interruptions = 0;
  for (;;) {
    breaking.left = interruptions;
    const outcome = await restorePostgres({ ...parts, database: breaking }, { dryRun: false, settleMs: 0 }).catch(
      (error: Error) => error,
    );
    if (!(outcome instanceof Error)) break;
    expect(outcome.message).toBe('interrupted');
    // No worker persists over the gap.
    expect(await store.cursor.read()).toBe(cursor);
    await expect(store.persist()).rejects.toMatchObject({ name: 'JournalGap' });
    interruptions += 13;
  }
  await breaking.close();
  expect(interruptions).toBeGreaterThan(20);
  await store.persist();
  await expectWhole(campaign);
  expect(isWhole(await repair(true))).toBe(true);
});

test('reconcile --after-restore writes and trims nothing while the journal has an entry of a campaign that Redis lacks', async () => {
  const [campaign, lost] = [await store.openCampaign({ totalLimit: 5 }), await store.openCampaign({ totalLimit: 5 })];
  await store.persist();
  const backup = await takeBackup(store.sql);
  await campaign.take('ann');
  await store.persist();
  await goBack(store.sql, backup);
  await lost.take('bob');
  await sale.redis.hdel(keys.directory, String(lost.terms.no));
  const [before, entries] = [await takeBackup(store.sql), await sale.journal.position()];
  for (const dryRun of [true, false])
    await expect(repair(dryRun)).rejects.toThrow(`about campaign ${lost.terms.no}, which no shard of Redis has`);
  expect((await takeBackup(store.sql)).tables).toEqual(before.tables);
  expect(await sale.journal.position()).toEqual(entries);
  // Another shard has it, with what came of the entry.
  const numbers = new Set([Number(lost.terms.no)]);
  expect(isWhole((await restoreTogether([parts], { dryRun: true, settleMs: 50, numbers }))[0] as Findings)).toBe(false);
  await sale.redis.hset(keys.directory, String(lost.terms.no), lost.product);
  await repair();
  await store.persist();
  await expectWhole(campaign);
  await expectWhole(lost);
});

test('reconcile --after-restore is consistent while the sale goes on', async () => {
  for (let round = 0; round < 3; round += 1) {
    const campaign = await store.openCampaign({ totalLimit: 60, perUserLimit: 3, latePayment: 'reacquire' });
    const held: string[] = [];
    let running = true;
    let users = 0;
    const buy = async () => {
      while (running) {
        users += 1;
        const user = `user-${users % 200}`;
        const outcome = await campaign.checkout(user);
        if (outcome.kind === 'reserved') held.push(outcome.reservationId);
        const id = held[Math.floor(Math.random() * held.length)];
        const dice = Math.random();
        if (id && dice < 0.3) await campaign.confirm(id);
        else if (id && dice < 0.6) await campaign.release(id);
        else if (id && dice < 0.7) await campaign.refund(id);
        else if (dice < 0.8) await campaign.leave(`user-${Math.floor(Math.random() * 200)}`);
        else if (dice < 0.82) await campaign.restock(1);
      }
    };
    const crowd = Array.from({ length: 4 }, buy);
    await until('units are reserved', () => held.length >= 10);
    await store.persist();
    const backup = await takeBackup(store.sql);
    const beforeIt = users;
    await campaign.restock(20);
    await until('more units are promised', () => users >= beforeIt + 50);
    await store.persist();
    const persisted = users;
    await until('the journal goes on', () => users >= persisted + 20);
    await goBack(store.sql, backup);
    const found = await restorePostgres(parts, { dryRun: false, settleMs: 0 });
    expect(of(found, campaign)?.missing.reservations).toBeGreaterThan(0);
    running = false;
    await Promise.all(crowd);
    await store.persist();
    expect(await store.isCaughtUp()).toBe(true);
    await expectWhole(campaign);
    const { values } = await store.metrics.voided.get();
    expect(values).toEqual([]);
  }
});

test('reconcile --after-restore keeps the key of a place that its user left, although the user is in line again', async () => {
  const campaign = await store.openCampaign({
    totalLimit: 1,
    waitingRoom: { enabled: true, maxSize: 7, presenceSeconds: null },
  });
  await campaign.take('ann');
  await store.persist();
  const backup = await takeBackup(store.sql);
  const first = await campaign.checkout('rob', { key: 'key-of-rob' });
  await campaign.leave('rob');
  await store.persist();
  await goBack(store.sql, backup);
  await campaign.join('rob', { key: 'a-later-key' });
  await repair();
  await expectWhole(campaign);
  await sale.redis.del(keys.idempotency('rob' as UserId, 'key-of-rob' as IdempotencyKey));
  await afterLossOfRedis(campaign);
  expect(first).toMatchObject({ kind: 'queued' });
  expect(await campaign.checkout('rob', { key: 'key-of-rob' })).toMatchObject({ kind: 'replayed' });
});

test.each([
  ['waits in line again', async (campaign: TestCampaign) => void (await campaign.join('rob'))],
  [
    'holds a unit without waiting',
    async (campaign: TestCampaign) => {
      await campaign.restock(1);
      await campaign.take('rob');
    },
  ],
])('reconcile --after-restore keeps a place that its user has left since, and now %s', async (_, comeBack) => {
  const campaign = await store.openCampaign({ totalLimit: 1 });
  await campaign.take('ann');
  await store.persist();
  const backup = await takeBackup(store.sql);
  await campaign.join('rob', { qty: 1 });
  await store.persist();
  const [before] = await store.tickets(campaign);
  await campaign.leave('rob');
  await comeBack(campaign);
  await goBack(store.sql, backup);
  await restorePostgres(parts, { dryRun: false, settleMs: 50 });
  // Before a worker writes the rest.
  expect(await store.verdictOf(campaign)).toMatchObject(CLEAN);
  expect(await store.tickets(campaign)).toMatchObject([
    { line_no: 1, user_id: 'rob', status: 'waiting', qty: 1, reservation_id: before?.reservation_id },
  ]);
  await store.persist();
  await expectWhole(campaign);
  expect((await store.tickets(campaign))[0]).toMatchObject({ line_no: 1, user_id: 'rob', status: 'left' });
});

test('reconcile --after-restore keeps the key of a restock', async () => {
  const campaign = await store.openCampaign({ totalLimit: 1 });
  const backup = await takeBackup(store.sql);
  const once = { key: 'three-more' };
  expect(await campaign.restock(3, once)).toMatchObject({ kind: 'restocked', total: 4 });
  await store.persist();
  await goBack(store.sql, backup);
  await repair();
  await expectWhole(campaign);
  await sale.redis.del(keys.idempotency('' as UserId, once.key as IdempotencyKey));
  await afterLossOfRedis(campaign);
  expect(await campaign.restock(3, once)).toMatchObject({ kind: 'restocked', total: 4 });
  expect(await campaign.stock()).toMatchObject({ total: 4 });
});

test('what the journal still has is applied if Redis is lost right after reconcile --after-restore', async () => {
  const campaign = await store.openCampaign({ totalLimit: 3, latePayment: 'reacquire' });
  const [paid, ended] = [await campaign.take('ann'), await campaign.take('ben')];
  await store.persist();
  const backup = await takeBackup(store.sql);
  await campaign.confirm(paid);
  await campaign.release(ended);
  await store.persist();
  await goBack(store.sql, backup);
  const promises = new UnpersistedPromises(100);
  const late = campaign.through(new SaleStore(sale.store.scripts, TEST_LIMITS, promises));
  await late.refund(paid);
  await late.confirm(ended);
  await restorePostgres(parts, { dryRun: false, settleMs: 50 });
  expect(await store.loseJournal(promises.after('0-0', Number.POSITIVE_INFINITY, 100))).toMatchObject({
    applied: 2,
    rejected: 0,
  });
  expect(await store.redemptions(campaign)).toMatchObject([
    { redemption_id: paid, status: 'refunded' },
    { redemption_id: ended, status: 'redeemed', reacquired: true },
  ]);
});
