import { expect, test } from '@jest/globals';
import { uuidv7 } from 'uuidv7';
import { SaleMinutes } from '../../shared/postgres/sale-minutes.js';
import type { TestCampaign } from '../harness/campaign.js';
import { startPersistence } from '../harness/persistence.js';
import { startSale } from '../harness/sale.js';

/** What the paid units of each minute cost, at the price that the sale page had then. */
const sale = await startSale();
const store = await startPersistence(sale);
const minutes = new SaleMinutes(store.database);
const [FROM, TO] = [new Date('2020-01-01T00:00:00Z'), new Date('2100-01-01T00:00:00Z')];

const pay = (campaign: TestCampaign, at: string, qty: number) =>
  store.sql.query(
    `insert into redemptions (redemption_id, campaign_id, user_id, order_id, qty, slot, status, reserved_at, redeemed_at)
     values ($1::uuid, $2, $1::uuid::text, $1::uuid::text, $3, 1, 'redeemed', $4, $4)`,
    [uuidv7(), campaign.terms.id, qty, at],
  );
const revenues = (found: Awaited<ReturnType<SaleMinutes['read']>>) =>
  found.map(({ minute, revenue, currency }) => [minute.toISOString().slice(11, 16), revenue, currency]);
const setPrice = (campaign: TestCampaign, price: object | null) =>
  store.sql.query(`update campaigns set rules = jsonb_set(rules, '{branding}', $2::jsonb) where campaign_id = $1`, [
    campaign.terms.id,
    JSON.stringify(price ?? {}),
  ]);
/** Moves the latest change of the price to a time in the past. */
const since = (campaign: TestCampaign, at: string) =>
  store.sql.query(
    `update campaign_prices set since = $2 where campaign_id = $1
       and since = (select max(since) from campaign_prices where campaign_id = $1)`,
    [campaign.terms.id, at],
  );

test('each minute has the revenue at the price of its end, also while its rows are counted again', async () => {
  const price = { price: 1_000, currency: 'EUR' };
  const campaign = await store.storeCampaign({ totalLimit: 99 }, { branding: price });
  for (const at of ['10:00:30', '10:02:10', '10:05:00', '10:09:00']) await pay(campaign, `2026-11-22T${at}Z`, 2);
  await setPrice(campaign, { price: 3_000, currency: 'USD' });
  await since(campaign, '2026-11-22T10:02:50Z');
  await setPrice(campaign, null);
  await since(campaign, '2026-11-22T10:08:00Z');
  const read = async () => revenues(await minutes.read(campaign.terms.id, FROM, TO));
  const expected = [
    ['10:00', 2_000, 'EUR'],
    ['10:02', 6_000, 'USD'],
    ['10:05', 6_000, 'USD'],
    ['10:09', null, null],
  ];
  expect(await read()).toEqual(expected);
  await store.sql.query('select recount_sale_minutes(array[$1::uuid])', [campaign.terms.id]);
  expect(await read()).toEqual(expected);
});

test('a price is kept when it changes only, and one that comes later is not that of earlier minutes', async () => {
  const campaign = await store.storeCampaign({ totalLimit: 99 });
  await pay(campaign, '2026-11-22T10:00:30Z', 1);
  await setPrice(campaign, { price: 5, currency: 'JPY' });
  await setPrice(campaign, { currency: 'JPY', price: 5 });
  await store.sql.query(`update campaigns set rules = rules || '{"audience": null}' where campaign_id = $1`, [
    campaign.terms.id,
  ]);
  const { rows } = await store.sql.query('select amount::int, currency from campaign_prices where campaign_id = $1', [
    campaign.terms.id,
  ]);
  expect(rows).toEqual([{ amount: 5, currency: 'JPY' }]);
  expect(revenues(await minutes.read(campaign.terms.id, FROM, TO))).toEqual([['10:00', null, null]]);
});
