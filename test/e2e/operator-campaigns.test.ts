import { randomUUID } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import type { Page } from 'playwright-core';
import { accessibilityFindings, startBrowser } from '../harness/browser.js';
import { Operator } from '../harness/clients.js';
import { heading, LIMIT_MS, pageOpener, press, SIZES, shows } from '../harness/operator-page.js';
import { sharedService } from '../harness/service.js';
import { checkoutInTurn, gatherShoppers } from '../harness/shoppers.js';
import { until } from '../harness/until.js';

/** A marketer’s day on the operator’s page: drafts, reviews, changes, copies, and the list. */
const service = await sharedService();
const operator = new Operator(service.url);
const browser = await startBrowser();
const inBrowser = browser ? describe : describe.skip;
const open = pageOpener(browser, service.url);
const openLoggedIn = (hash: string, viewport = SIZES.desktop) => open(hash, { viewport, timezoneId: 'Europe/Berlin' });

const confirm = (page: Page, name: string) =>
  page.getByRole('dialog').getByRole('button', { name, exact: true }).click();

inBrowser('a marketer', () => {
  test('makes a draft, sees warnings and both time zones in the review, and publishes it', async () => {
    const product = `draft-${randomUUID()}`;
    const { page, faults } = await openLoggedIn('#/new');
    await page.getByLabel('Product id').fill(product);
    await page.getByLabel('Name').fill('Pool of codes');
    await page.getByLabel('Type').selectOption('Pool of codes');
    await page.getByLabel('Units', { exact: true }).fill('500');
    await page.getByLabel('Time zone').fill('Asia/Jakarta');
    await page.getByLabel('Starts').fill('2031-01-01T09:00:00');
    expect(await page.getByLabel('Keep it as a draft').isChecked()).toBe(true);
    await press(page, 'Create the campaign');
    await heading(page, 'Pool of codes');
    await shows(page, '0 codes, 500 units');
    await press(page, 'Publish');
    const review = page.getByRole('dialog');
    await review.getByRole('cell', { name: 'Wed, 1 Jan 2031, 09:00' }).waitFor();
    await review.getByRole('cell', { name: 'Wed, 1 Jan 2031, 03:00' }).waitFor();
    await review.getByText('0 codes, 500 units').waitFor();
    await confirm(page, 'Cancel');
    expect((await operator.call('GET', `/admin/campaigns/${product}`)).data.status).toBe('draft');
    await press(page, 'Publish');
    await confirm(page, 'Publish');
    await shows(page, 'The campaign is published.');
    expect((await operator.call('GET', `/admin/campaigns/${product}`)).data.status).toBe('scheduled');
    expect(faults).toEqual([]);
  });

  test('reviews a campaign that is published at once before it exists', async () => {
    const product = `now-${randomUUID()}`;
    const { page } = await openLoggedIn('#/new');
    await page.getByLabel('Product id').fill(product);
    await page.getByLabel('Keep it as a draft').uncheck();
    await press(page, 'Create the campaign');
    await shows(page, 'Create and publish this campaign?');
    expect((await operator.call('GET', `/admin/campaigns/${product}`)).status).toBe(404);
    await confirm(page, 'Create and publish');
    await shows(page, 'The campaign was created.');
    expect((await operator.call('GET', `/admin/campaigns/${product}`)).data.status).toBe('open');
  });

  test('changes terms and rules after seeing what differs, and finds the version', async () => {
    const product = await operator.openCampaign({
      name: 'Before',
      total_limit: 9,
      hold_seconds: 300,
      starts_at: '2026-01-01T00:00:00.123Z',
      limits: { unusual_hours: { from: 1, to: 5 } },
    });
    const { page, faults } = await openLoggedIn(`#/edit/${product}`);
    await until('the form is filled', async () => (await page.getByLabel('Name').inputValue()) === 'Before', LIMIT_MS);
    await press(page, 'Review the change');
    await shows(page, 'Nothing was changed.');
    await page.getByLabel('Name').fill('After');
    await page.getByLabel('Seconds until an absent user steps back').fill('60');
    await page.getByText('More terms').click();
    await page.getByLabel('Only users whose attribute').fill('tier');
    await page.getByLabel('… with this value').fill('gold');
    await page.getByLabel('Cannot be combined with other codes').check();
    await page.getByLabel('Other limits as JSON').fill('{"unusual_hours": ');
    await press(page, 'Review the change');
    await shows(page, 'This is not JSON.');
    await page.getByLabel('Other limits as JSON').fill('{"unusual_hours": {"from": 2, "to": 5}}');
    await press(page, 'Review the change');
    const review = page.getByRole('dialog');
    await review.getByRole('row', { name: 'Name Before After' }).waitFor();
    await review
      .getByText('{"eq":"gold","attribute":"tier"}')
      .or(review.getByText('{"attribute":"tier","eq":"gold"}'))
      .waitFor();
    expect((await operator.call('GET', `/admin/campaigns/${product}`)).data.name).toBe('Before');
    await confirm(page, 'Store the change');
    await heading(page, 'After');
    expect((await operator.call('GET', `/admin/campaigns/${product}`)).data).toMatchObject({
      version: 2,
      audience: { attribute: 'tier', eq: 'gold' },
      stacking: { exclusive: true },
      waiting_room: { presence_seconds: 60 },
      limits: { unusual_hours: { from: 2, to: 5 } },
      hold_seconds: 300,
    });
    await page.getByText('Show who changed what').click();
    await shows(page, 'Version 2, by tester');
    expect(faults).toEqual([]);
  });

  test('sells a closed product again under a proposed product id, with its terms', async () => {
    const product = `${randomUUID()}-7`;
    const created = await operator.call('POST', '/admin/campaigns', {
      product_id: product,
      name: 'Again',
      total_limit: 33,
      code: 'ONCEONLY',
      audience: { or: [{ attribute: 'a', eq: 1 }] },
      discount: { kind: 'percent', percent: 25 },
      branding: { title: 'Again!' },
    });
    expect(created.status).toBe(201);
    await operator.call('POST', `/admin/campaigns/${product}/close`);
    const { page, faults } = await openLoggedIn(`#/campaigns/${product}`);
    await page.getByRole('link', { name: 'Sell again' }).click();
    await shows(page, 'A product id belongs to one campaign for good');
    expect(await page.getByLabel('Code', { exact: true }).inputValue()).toBe('');
    await press(page, 'Create the campaign');
    await shows(page, 'The draft was created.');
    const copy = product.replace(/7$/, '8');
    expect((await operator.call('GET', `/admin/campaigns/${copy}`)).data).toMatchObject({
      name: 'Again',
      status: 'draft',
      total_limit: 33,
      code: null,
      audience: { or: [{ attribute: 'a', eq: 1 }] },
      discount: { kind: 'percent', percent: 25 },
      branding: { title: 'Again!' },
      checkout_url: null,
    });
    expect(faults).toEqual([]);
  });

  test('sees how many users a restock promotes, and types a large number twice', async () => {
    const product = await operator.openCampaign({
      total_limit: 20,
      hold_seconds: 900,
      waiting_room: { enabled: true },
    });
    await checkoutInTurn(gatherShoppers(service.url, product, 23));
    const { page } = await openLoggedIn(`#/campaigns/${product}`);
    await until('the line is shown', async () => (await page.locator('dd.waiting').textContent()) === '3', LIMIT_MS);
    await press(page, 'Restock');
    await page.getByLabel('Units to add').fill('4000');
    await shows(page, 'All 3 waiting users are promoted at once');
    await press(page, 'Change the stock');
    await shows(page, 'Type 4000 again to confirm.');
    expect((await operator.stats(product)).total).toBe(20);
    await page.getByLabel('Units to add').fill('2');
    await shows(page, 'Up to 2 of 3 waiting users');
    await press(page, 'Change the stock');
    await until('the stock has changed', async () => (await operator.stats(product)).total === 22);
    await press(page, 'Restock');
    await page.getByLabel('Units to add').fill('4000');
    await page.getByLabel('The same number again').fill('4000');
    await press(page, 'Change the stock');
    await until('the stock has changed', async () => (await operator.stats(product)).total === 4_022);
  });

  test('reads the history of a sale with a report, also after a reload', async () => {
    const product = await operator.openCampaign({
      total_limit: 20,
      branding: { price: 1_250, currency: 'EUR' },
    });
    await checkoutInTurn(gatherShoppers(service.url, product, 3));
    await until('it is written', async () => {
      const { data } = await operator.call('GET', `/admin/campaigns/${product}/history`);
      return data.minutes.reduce((sum: number, one: { paid: number }) => sum + one.paid, 0) === 3;
    });
    const { page, faults } = await openLoggedIn(`#/campaigns/${product}`);
    for (let i = 0; i < 2; i += 1) {
      const card = page.getByRole('region', { name: 'History' });
      await card.getByText('€37.50').waitFor({ timeout: LIMIT_MS });
      await card.getByText('created').waitFor();
      await card.locator('canvas').waitFor();
      await page.reload();
    }
    for (const [name, file] of [
      ['Report as CSV', `report-${product}.csv`],
      ['Minutes as CSV', `sale-${product}.csv`],
    ] as const) {
      const [download] = await Promise.all([
        page.waitForEvent('download'),
        page.getByRole('link', { name, exact: true }).click(),
      ]);
      expect(download.suggestedFilename()).toBe(file);
    }
    expect(faults).toEqual([]);
  });

  test('the history of an open sale goes on without a reload', async () => {
    const product = await operator.openCampaign({ total_limit: 20, branding: { price: 1_250, currency: 'EUR' } });
    const { page, faults } = await openLoggedIn(`#/campaigns/${product}`);
    const card = page.getByRole('region', { name: 'History' });
    await card.getByText('Nothing was sold yet.').waitFor({ timeout: LIMIT_MS });
    await page.clock.install();
    await page.reload();
    await card.getByText('Nothing was sold yet.').waitFor({ timeout: LIMIT_MS });
    await checkoutInTurn(gatherShoppers(service.url, product, 3));
    await until('the report has it', async () => {
      const { data } = await operator.call('GET', `/admin/campaigns/${product}/report`);
      // All of it, because the page reads the report once.
      return data.revenue[0]?.amount === 3_750;
    });
    await page.clock.fastForward(30_000);
    await card.getByText('€37.50').waitFor({ timeout: LIMIT_MS });
    expect(faults).toEqual([]);
  });

  test('finds a campaign in the list, and hides one that is over', async () => {
    const word = `w${randomUUID().slice(0, 8)}`;
    const open = await operator.openCampaign({ name: `Open ${word}` });
    const closed = await operator.openCampaign({ name: `Closed ${word}` });
    await operator.call('POST', `/admin/campaigns/${closed}/close`);
    const { page, faults } = await openLoggedIn('#/');
    await page.getByLabel('Search campaigns').fill(word);
    await press(page, 'Apply');
    await page.getByRole('link', { name: `Closed ${word}` }).click();
    await press(page, 'Hide from the list');
    await shows(page, 'The campaign is hidden from the list.');
    await page.goto(`${service.url}/admin#/?q=${word}`);
    await page.getByRole('link', { name: `Open ${word}` }).waitFor({ timeout: LIMIT_MS });
    expect(await page.getByRole('link', { name: `Closed ${word}` }).count()).toBe(0);
    await page.getByLabel('Hidden ones').check();
    await press(page, 'Apply');
    await page.getByRole('link', { name: `Closed ${word}` }).waitFor({ timeout: LIMIT_MS });
    await page.goto(`${service.url}/admin#/?q=nothing-like-${word}`);
    await shows(page, 'No campaign matches.');
    expect((await operator.call('GET', `/admin/campaigns/${open}`)).data.hidden).toBe(false);
    expect(faults).toEqual([]);
  });

  test.each(Object.entries(SIZES))(
    'meets no barrier that axe finds, and no sideways scrolling: %s',
    async (_, viewport) => {
      const product = await operator.openCampaign({ name: 'Axe', type: 'pool', total_limit: 5, draft: true });
      await operator.call('PATCH', `/admin/campaigns/${product}`, { name: 'Axe two' });
      const { page } = await openLoggedIn(`#/campaigns/${product}`, viewport);
      const check = async (what: string) => {
        expect([what, await accessibilityFindings(page)]).toEqual([what, []]);
        expect([what, await page.evaluate('document.documentElement.scrollWidth <= innerWidth')]).toEqual([what, true]);
      };
      await shows(page, '0 codes, 5 units');
      await page.getByText('Show who changed what').click();
      await shows(page, 'Version 2, by tester');
      await check('campaign with versions');
      await press(page, 'Publish');
      await shows(page, 'What shoppers see');
      await check('review');
      await page.keyboard.press('Escape');
      await page.goto(`${service.url}/admin#/edit/${product}`);
      await page.getByText('More terms').click();
      await check('edit');
      await page.getByLabel('Name').fill('Axe three');
      await press(page, 'Review the change');
      await shows(page, 'Store this change?');
      await check('change');
    },
  );
});
