import { afterEach, expect, test } from '@jest/globals';
import pg from 'pg';
import type { StoredCampaign } from '../../shared/postgres/campaigns.js';
import { campaignKeys, keys } from '../../shared/redis/keys.js';
import { SaleCopy } from '../../shared/sale/sale-copy.js';
import { SaleStore } from '../../shared/sale/sale-store.js';
import { preheat as putIntoRedis } from '../../worker/recovery/preheat.js';
import { restoreCampaign } from '../../worker/recovery/restore-campaign.js';
import { keepSchedule } from '../../worker/schedule/schedule.js';
import { termsInRedis } from '../harness/audit.js';
import type { TestCampaign } from '../harness/campaign.js';
import { startPersistence } from '../harness/persistence.js';
import { startSale, TEST_LIMITS } from '../harness/sale.js';
import { until } from '../harness/until.js';

const sale = await startSale();
const store = await startPersistence(sale);
afterEach(() => sale.expectConsistent());

const PREHEAT_MS = 600_000;
const inAnHour = () => new Date(Date.now() + 3_600_000);

/** As the worker composes it. */
async function preheat(campaign: StoredCampaign, isHere = (_: StoredCampaign) => true): Promise<void> {
  const parts = {
    database: store.database,
    cursor: store.cursor,
    sale: sale.store,
    log: store.log,
    idempotencyTtlMs: TEST_LIMITS.idempotencyTtlMs,
  };
  const refill = (lost: StoredCampaign) =>
    sale.fill(async (token) => restoreCampaign(parts, lost, await sale.nowMs(), token));
  await putIntoRedis({ ...parts, campaigns: store.campaigns, isHere, drain: () => store.persist(), refill }, campaign);
}

/** One round of the schedule; by default at this moment of Redis. */
async function keep({
  nowMs,
  through = sale.store,
  isHere = () => true,
}: {
  nowMs?: number;
  through?: SaleStore;
  isHere?: (campaign: StoredCampaign) => boolean;
} = {}): Promise<void> {
  await keepSchedule({
    sale: through,
    copy: new SaleCopy(sale.redis),
    campaigns: store.campaigns,
    live: await store.campaigns.live(),
    isHere,
    divided: () => [],
    homeOf: () => through,
    log: store.log,
    nowMs: nowMs ?? (await sale.nowMs()),
    limits: { preheatMs: PREHEAT_MS },
    preheat: (campaign) => preheat(campaign),
  });
}

const statusOf = async (campaign: TestCampaign) => (await campaign.stock())?.status ?? 'not in Redis';
const WAITS_FOR_LOCK = "select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
const auditOf = async ({ terms }: TestCampaign) =>
  (await store.sql.query('select actor, action from audit_log where campaign_id = $1', [terms.id])).rows;
/** Changes terms in Postgres as an operator does, and nothing in Redis. */
async function amendInPostgres(campaign: TestCampaign, change: string): Promise<void> {
  await store.sql.query(`update campaigns set ${change}, terms_version = terms_version + 1 where campaign_id = $1`, [
    campaign.terms.id,
  ]);
}

test('the schedule puts into Redis what Postgres has and Redis has not: open ones, drafts, paused ones, those that open soon', async () => {
  const open = await store.storeCampaign();
  const early = await store.storeCampaign({ startsAt: inAnHour() });
  const draft = await store.storeCampaign({ status: 'draft', startsAt: inAnHour() });
  const paused = await store.storeCampaign({ status: 'paused' });
  const soon = await store.storeCampaign({ status: 'scheduled', startsAt: new Date(Date.now() + PREHEAT_MS / 2) });
  const later = await store.storeCampaign({ status: 'scheduled', startsAt: inAnHour() });
  const closed = await store.storeCampaign({ status: 'closed' });
  await keep();
  const all = [open, early, draft, paused, soon, later, closed];
  expect(await Promise.all(all.map(statusOf))).toEqual([
    'open',
    'open',
    'draft',
    'paused',
    'scheduled',
    'not in Redis',
    'not in Redis',
  ]);
  expect((await open.checkout('ann')).kind).toBe('reserved');
});

test('the schedule leaves a campaign alone that another shard has, or that this process cannot place', async () => {
  const [here, elsewhere] = [await store.storeCampaign(), await store.storeCampaign()];
  const isHere = ({ productId }: StoredCampaign) => productId === here.product;
  await keep({ isHere });
  expect([await statusOf(here), await statusOf(elsewhere)]).toEqual(['open', 'not in Redis']);
  // It moves between the look and the load.
  const stored = await store.campaigns.find(elsewhere.product);
  await expect(preheat(stored as StoredCampaign, () => false)).rejects.toThrow(
    'not known whether the campaign is here',
  );
  expect(await statusOf(elsewhere)).toBe('not in Redis');
});

test('the schedule puts a scheduled campaign into Redis when its opening is as near as the limit, not before', async () => {
  const startsAt = inAnHour();
  const campaign = await store.storeCampaign({ status: 'scheduled', startsAt });
  await keep({ nowMs: startsAt.getTime() - PREHEAT_MS - 1 });
  expect(await statusOf(campaign)).toBe('not in Redis');
  await keep({ nowMs: startsAt.getTime() - PREHEAT_MS });
  expect(await statusOf(campaign)).toBe('scheduled');
});

test('the schedule restores a campaign that Redis has lost with all of its sales', async () => {
  const campaign = await store.openCampaign({ totalLimit: 3 });
  const paid = await campaign.take('ann');
  await campaign.confirm(paid);
  const held = await campaign.take('bob', { qty: 2 });
  await campaign.join('cid');
  await sale.redis.hdel(keys.directory, String(campaign.terms.no));
  await sale.redis.del(...campaignKeys(campaign.product));
  await keep();
  expect(await campaign.stock()).toEqual({
    status: 'open',
    total: 3,
    free: 0,
    held: 2,
    redeemed: 1,
    burned: 0,
    waiting: 1,
  });
  expect(await campaign.confirm(held)).toMatchObject({ kind: 'redeemed' });
  expect(await campaign.refund(paid)).toMatchObject({ kind: 'refunded' });
  expect(await campaign.standing('cid')).toMatchObject({ status: 'promoted' });
});

test('the schedule brings back a campaign of which only the directory is left', async () => {
  const campaign = await store.openCampaign({ totalLimit: 1 });
  await campaign.take('ann');
  await store.persist();
  await sale.redis.del(...campaignKeys(campaign.product));
  await keep();
  expect(await campaign.stock()).toMatchObject({ free: 0, held: 1 });
});

test('the schedule gives Postgres the terms that only Redis has, whole, at once', async () => {
  const campaign = await store.openCampaign({ maxQty: 3 }, { uniform_refusals: true });
  const stored = { ...campaign.terms };
  const discount = { kind: 'percent', percent: 20 } as const;
  // As an API does that dies before its transaction is committed, or a Postgres that is set back.
  await campaign.store.campaigns.updateTerms({
    ...stored,
    name: 'Later',
    timeZone: 'Asia/Tokyo',
    discount,
    rules: { audience: { attribute: 'tier', equals: 'gold' } },
    maxQty: 9,
    termsVersion: 5,
  });
  for (const _ of ['at once', 'again']) {
    await keep();
    expect(await termsInRedis(sale.redis, campaign.product)).toMatchObject({ version: '5', max_qty: '9' });
    expect(await store.campaigns.find(campaign.product)).toMatchObject({
      termsVersion: 5,
      maxQty: 9,
      name: 'Later',
      timeZone: 'Asia/Tokyo',
      discount,
      rules: { audience: { attribute: 'tier', equals: 'gold' } },
    });
  }
  const { rows } = await store.sql.query('select version from campaign_terms where campaign_id = $1 order by version', [
    stored.id,
  ]);
  expect(rows.map(({ version }) => version)).toEqual([1, 2, 3, 4, 5]);
  expect(await auditOf(campaign)).toEqual([{ actor: 'clock', action: 'campaign.amend' }]);
});

test('the schedule waits for a change that an operator has not committed yet, and writes no terms of its own', async () => {
  const campaign = await store.openCampaign({ maxQty: 3 });
  const stored = { ...campaign.terms };
  const operator = new pg.Client({ connectionString: store.url });
  await operator.connect();
  try {
    await operator.query('begin');
    await operator.query('update campaigns set max_qty = 9, terms_version = 2 where campaign_id = $1', [stored.id]);
    await campaign.store.campaigns.updateTerms({ ...stored, maxQty: 9, termsVersion: 2 });
    const kept = keep();
    await until('the schedule waits', async () => (await store.sql.query(WAITS_FOR_LOCK)).rowCount === 1);
    await operator.query('commit');
    await kept;
  } finally {
    await operator.end();
  }
  expect(await store.campaigns.find(campaign.product)).toMatchObject({ termsVersion: 2, maxQty: 9 });
  expect(await auditOf(campaign)).toEqual([]);
});

test('the schedule keeps a limit that a crash has raised in Redis: users may have used it', async () => {
  const campaign = await store.openCampaign({ perUserLimit: 1, maxQty: 3 });
  const stored = { ...campaign.terms };
  await campaign.store.campaigns.updateTerms({ ...stored, perUserLimit: 2, maxQty: 9, termsVersion: 2 });
  await campaign.take('ann');
  await campaign.take('ann');
  await keep();
  expect(await store.campaigns.find(campaign.product)).toMatchObject({ perUserLimit: 2, maxQty: 9 });
});

test('the schedule never changes the stock, the line and the buyers of a campaign in Redis', async () => {
  const campaign = await store.openCampaign({ totalLimit: 1 });
  await campaign.take('ann');
  await campaign.join('bob');
  const before = await campaign.inRedis();
  await keep();
  await keep();
  expect(await campaign.inRedis()).toEqual(before);
});

test('the schedule writes the newest terms to Redis when the process that changed them died before', async () => {
  const campaign = await store.openCampaign({ maxQty: 1 });
  await amendInPostgres(campaign, "max_qty = 9, late_payment = 'reacquire'");
  await keep();
  expect(await termsInRedis(sale.redis, campaign.product)).toMatchObject({
    version: '2',
    max_qty: '9',
    late_payment: 'reacquire',
  });
});

test('the schedule starts a campaign at its time, names the clock for it, and does so once', async () => {
  const campaign = await store.openCampaign({ status: 'scheduled', startsAt: inAnHour() });
  await keep();
  expect(await statusOf(campaign)).toBe('scheduled');
  await amendInPostgres(campaign, "starts_at = now() - interval '1 second'");
  await keep();
  await keep();
  expect(await statusOf(campaign)).toBe('open');
  expect(await campaign.entries()).toMatchObject([
    { kind: 'status', action: 'start', before: 'scheduled', status: 'open', actor: 'clock' },
  ]);
  await store.persist();
  expect(await store.campaignRow(campaign)).toMatchObject({ status: 'open' });
});

test('the schedule finishes a campaign at its time, whatever it was, and a draft never', async () => {
  const endsAt = inAnHour();
  const ending = await Promise.all(
    (['open', 'paused', 'draft'] as const).map((status) => store.openCampaign({ status, endsAt })),
  );
  const [open] = ending;
  await keep();
  expect(await Promise.all(ending.map(statusOf))).toEqual(['open', 'paused', 'draft']);
  for (const campaign of ending)
    await amendInPostgres(campaign, "starts_at = now() - interval '1 hour', ends_at = now() - interval '1 second'");
  await keep();
  await keep();
  expect(await Promise.all(ending.map(statusOf))).toEqual(['closed', 'closed', 'draft']);
  expect(await open?.entries()).toMatchObject([
    { kind: 'status', action: 'finish', before: 'open', status: 'closed', actor: 'clock' },
  ]);
});

test('the schedule goes by the clock of Redis: a worker whose own is an hour ahead starts nothing early', async () => {
  const campaign = await store.openCampaign({ status: 'scheduled', startsAt: new Date(Date.now() + 1_800_000) });
  await keep({ nowMs: Date.now() + 3_600_000 });
  expect(await statusOf(campaign)).toBe('scheduled');
});

test('the schedule loses no promise of a campaign that an operator put into Redis at the same moment', async () => {
  const campaign = await store.storeCampaign({ totalLimit: 1 });
  let reservation = '';
  /** The operator's call comes right after the schedule has missed the campaign in Redis. */
  const interrupted = new SaleStore(sale.store.scripts, TEST_LIMITS);
  const updateTerms = interrupted.campaigns.updateTerms.bind(interrupted.campaigns);
  interrupted.campaigns.updateTerms = async (missed) => {
    const outcome = await updateTerms(missed);
    if (missed.productId === campaign.product) await sale.load(campaign);
    return outcome;
  };
  const persist = store.persist.bind(store);
  store.persist = async () => {
    await persist();
    reservation = await campaign.take('ann');
  };
  try {
    await keep({ through: interrupted });
  } finally {
    store.persist = persist;
  }
  expect(await campaign.reservation(reservation)).toMatchObject({ state: 'reserved', user: 'ann' });
  expect(await campaign.stock()).toMatchObject({ free: 0, held: 1 });
});
