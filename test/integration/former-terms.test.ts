import { afterEach, describe, expect, test } from '@jest/globals';
import type { Campaign } from '../../shared/domain/campaign.js';
import { carryTerms } from '../../shared/image/carry-terms.js';
import { PaymentEventsTable } from '../../shared/postgres/payment-events.js';
import { EventStream } from '../../shared/redis/event-stream.js';
import { keys } from '../../shared/redis/keys.js';
import { SaleCopy } from '../../shared/sale/sale-copy.js';
import type { TestCampaign } from '../harness/campaign.js';
import { startPersistence } from '../harness/persistence.js';
import { goBack, takeBackup } from '../harness/postgres-back.js';
import { fillAgain, restorePostgres } from '../harness/restore-postgres.js';
import { startSale } from '../harness/sale.js';

const sale = await startSale();
const store = await startPersistence(sale);
const stream = new EventStream(sale.store.scripts, 100_000);
afterEach(async () => sale.expectConsistent());

async function repair(): Promise<void> {
  const { redis, journal } = sale;
  const { database, cursor } = store;
  await restorePostgres({ redis, journal, stream, database, cursor }, { dryRun: false, settleMs: 50 });
  await store.persist();
}

const carry = ({ terms, product }: TestCampaign) =>
  carryTerms(store.database, new SaleCopy(sale.redis), terms.no, product);

/** Changes terms as an API does: Redis has them before Postgres commits them. */
async function change({ product }: TestCampaign, terms: Partial<Campaign>, rules: object = {}): Promise<void> {
  const current = await store.campaigns.find(product);
  if (!current) throw new Error('the campaign is not in Postgres');
  await store.database.transaction(async (client) => {
    const all = { ...current.rules, ...rules };
    const changed = await store.campaigns.amend(current, { ...current, ...terms }, all, client);
    expect(changed && (await sale.store.campaigns.updateTerms(changed))).toEqual({ kind: 'amended' });
  });
}

async function versionsOf({ terms }: TestCampaign): Promise<{ valid_from: Date }[]> {
  const { rows } = await store.sql.query(
    `select version, name, discount, checkout_url, audience, hold_seconds, valid_from
     from campaign_terms where campaign_id = $1 order by version`,
    [terms.id],
  );
  return rows;
}

/** @param lostAtMs when Postgres was set back: every version came into force before, and none at the repair */
function expectSame(found: { valid_from: Date }[], before: { valid_from: Date }[], lostAtMs: number): void {
  expect(found).toEqual(before.map((version) => ({ ...version, valid_from: expect.any(Date) })));
  for (const { valid_from } of found) expect(valid_from.getTime()).toBeLessThanOrEqual(lostAtMs);
}

const priced = (price: number) => ({ branding: { price, currency: 'EUR' } });
const REPAIRS = {
  'the repair command': () => repair(),
  'a worker, before the repair command': async (campaign: TestCampaign) => {
    await carry(campaign);
    await repair();
  },
};

describe.each(Object.entries(REPAIRS))('a campaign whose later terms Postgres has lost gets from %s', (_by, mend) => {
  test('the price at which each unit was sold', async () => {
    const payments = new PaymentEventsTable(store.database);
    const campaign = await store.openCampaign({ totalLimit: 9 }, priced(1_000));
    const backup = await takeBackup(store.sql);
    const sold = [await campaign.take('ann')];
    await change(campaign, {}, priced(2_000));
    sold.push(await campaign.take('bob'));
    await change(campaign, { name: 'Another name' });
    sold.push(await campaign.take('cid'));
    await change(campaign, {}, { branding: null });
    sold.push(await campaign.take('dan'));
    await store.persist();
    const costs = () => Promise.all(sold.map((id) => payments.costOf(campaign.terms.no, id)));
    const before = await costs();
    const euros = (amount: number) => ({ amount, currency: 'EUR' });
    expect(before).toEqual([euros(1_000), euros(2_000), euros(2_000), null]);
    await goBack(store.sql, backup);
    await mend(campaign);
    expect(await costs()).toEqual(before);
  });
});

describe.each([
  ['without a price', {}],
  ['with another price', priced(1_000)],
])('a campaign that Postgres has lost, and that began %s, gets from the repair command', (_name, rules) => {
  test('the price at which each unit was sold', async () => {
    const payments = new PaymentEventsTable(store.database);
    const backup = await takeBackup(store.sql);
    const campaign = await store.openCampaign({ totalLimit: 9 }, rules);
    const sold = [await campaign.take('ann')];
    await change(campaign, {}, priced(2_000));
    sold.push(await campaign.take('bob'));
    await store.persist();
    const costs = () => Promise.all(sold.map((id) => payments.costOf(campaign.terms.no, id)));
    const before = await costs();
    await goBack(store.sql, backup);
    await repair();
    expect(await costs()).toEqual(before);
    expect(before[1]).toMatchObject({ amount: 2_000 });
  });
});

describe('every version of the terms is restored', () => {
  const discountOf = (percent: number) => ({ kind: 'percent', percent }) as const;

  async function changeTwice(campaign: TestCampaign): Promise<void> {
    const gold = { audience: { attribute: 'tier', equals: 'gold' }, checkout_url: 'https://shop.test/' };
    await change(campaign, { discount: discountOf(20), holdSeconds: 30 }, gold);
    await change(campaign, { name: 'The last', discount: discountOf(30) }, { audience: null });
  }

  test('of a campaign that Postgres has', async () => {
    const campaign = await store.openCampaign({ discount: discountOf(10) });
    const backup = await takeBackup(store.sql);
    await changeTwice(campaign);
    const [before, lostAtMs] = [await versionsOf(campaign), await sale.nowMs()];
    await goBack(store.sql, backup);
    await repair();
    expectSame(await versionsOf(campaign), before, lostAtMs);
  });

  test('of a campaign that Postgres has lost, although Redis was filled since', async () => {
    const backup = await takeBackup(store.sql);
    const campaign = await store.openCampaign({ discount: discountOf(10) }, priced(500));
    await changeTwice(campaign);
    await change(campaign, {}, priced(700));
    await sale.redis.del(keys.campaign(campaign.product));
    await fillAgain(sale, store, campaign);
    await change(campaign, { name: 'After the fill' });
    const [before, prices, lostAtMs] = [await versionsOf(campaign), await pricesOf(campaign), await sale.nowMs()];
    await goBack(store.sql, backup);
    await repair();
    // Redis does not know when the first version came into force.
    expectSame((await versionsOf(campaign)).slice(1), before.slice(1), lostAtMs);
    expect(await pricesOf(campaign)).toEqual(prices);
  });

  test('and reservations have those of their time, also when their idempotency records have expired', async () => {
    const campaign = await store.openCampaign({ totalLimit: 9, discount: discountOf(10) });
    const backup = await takeBackup(store.sql);
    const ids = [await campaign.take('ann')];
    await change(campaign, { discount: discountOf(20) });
    ids.push(await campaign.take('bob'));
    await change(campaign, { discount: discountOf(30) });
    ids.push(await campaign.take('cid'));
    await store.persist();
    await goBack(store.sql, backup);
    const records = await sale.redis.keys('*:i:*');
    expect(records.length).toBeGreaterThanOrEqual(3);
    await sale.redis.del(records);
    await repair();
    const { rows } = await store.sql.query(
      `select terms_version from redemptions where redemption_id = any($1::uuid[]) order by redemption_id`,
      [ids],
    );
    expect(rows.map(({ terms_version }) => terms_version)).toEqual([1, 2, 3]);
  });

  async function pricesOf({ terms }: TestCampaign): Promise<unknown[]> {
    const { rows } = await store.sql.query(
      'select amount::int, currency from campaign_prices where campaign_id = $1 order by since',
      [terms.id],
    );
    return rows;
  }
});
