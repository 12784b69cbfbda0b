import { randomUUID } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import type { Browser, Page } from 'playwright-core';
import { accessibilityFindings, openPhone, startBrowser } from '../harness/browser.js';
import { Operator } from '../harness/clients.js';
import { ADMIN_SECRET, startService } from '../harness/service.js';
import { until } from '../harness/until.js';

/** The sale page of a campaign, and its buckets, set by the form of the operator. */
const service = await startService({ SHARDS: '2', IMAGE_ORIGINS: 'https://img.example' });
const operator = new Operator(service.url);
const browser = await startBrowser();
const inBrowser = browser ? describe : describe.skip;
const LIMIT_MS = 30_000;

const press = (page: Page, name: string) => page.getByRole('button', { name, exact: true }).click();
const shows = (page: Page, text: string) =>
  page.getByText(text).filter({ visible: true }).first().waitFor({ timeout: LIMIT_MS });
const read = async (product: string) => (await operator.call('GET', `/admin/campaigns/${product}`)).data;
const fold = (page: Page, name: string) => page.locator('summary', { hasText: name }).click();

async function openLoggedIn(hash: string, viewport = { width: 1280, height: 800 }) {
  const opened = await openPhone(browser as Browser, { viewport });
  await opened.page.goto(`${service.url}/admin${hash}`);
  await opened.page.getByLabel('Admin key').fill(ADMIN_SECRET);
  await opened.page.keyboard.press('Enter');
  await opened.page.locator('h1').waitFor({ timeout: LIMIT_MS });
  return opened;
}

inBrowser('the sale page by form', () => {
  test('gives a new campaign its brand, with the refusals of the service at their fields', async () => {
    const product = `brand-${randomUUID()}`;
    const { page, faults } = await openLoggedIn('#/new');
    await page.getByLabel('Product id').fill(product);
    await fold(page, 'Sale page');
    await page.getByLabel('Headline').fill('Night owl lamp');
    await page.getByLabel('Description').fill('Two lines\nof text');
    await page.getByLabel('Picture', { exact: true }).fill('http://img.example/lamp.png');
    await page.getByLabel('Link to the terms of sale').fill('https://shop.example/terms');
    const price = page.getByLabel('Price', { exact: true });
    await price.fill('19,90');
    await page.getByLabel('Currency of the price').fill('eur');
    await press(page, 'Create the campaign');
    await shows(page, 'Must be a number such as 19.90, with a point and without spaces.');
    expect(await price.getAttribute('aria-invalid')).toBe('true');
    await price.fill('19.90');
    await shows(page, 'Shoppers see €19.90.');
    await page.getByLabel('Accent colour').fill('#ffee00');
    await press(page, 'Add a text');
    await page.getByLabel('Language').fill('EN');
    await page.getByLabel('Which text').selectOption('buy');
    await page.getByLabel('Instead').fill('Grab the lamp');
    await press(page, 'Create the campaign');
    await shows(page, 'Must be an https URL without a user name.');
    await shows(page, 'Must be a language of ISO 639');
    expect(await page.getByLabel('Picture', { exact: true }).getAttribute('aria-invalid')).toBe('true');
    expect(await page.getByLabel('Language').getAttribute('aria-invalid')).toBe('true');
    expect(await page.getByLabel('Headline').getAttribute('aria-invalid')).toBeNull();
    await page.getByLabel('Picture', { exact: true }).fill('https://img.example/lamp.png');
    await page.getByLabel('Language').fill('en');
    await press(page, 'Create the campaign');
    await shows(page, 'The draft was created.');
    expect(await read(product)).toMatchObject({
      buckets: 1,
      branding: {
        title: 'Night owl lamp',
        description: 'Two lines\nof text',
        image_url: 'https://img.example/lamp.png',
        terms_url: 'https://shop.example/terms',
        price: 1990,
        currency: 'EUR',
        accent: '#ffee00',
        texts: { en: { buy: 'Grab the lamp' } },
      },
    });
    expect(faults.filter((fault) => !fault.includes('400'))).toEqual([]);
  });

  test('shows the accent as both modes of the page would have it', async () => {
    const { page } = await openLoggedIn('#/new');
    await fold(page, 'Sale page');
    const sample = (mode: string) => page.locator(`.swatch[data-mode=${mode}]`);
    expect(await sample('light').isVisible()).toBe(false);
    await page.getByLabel('Accent colour').fill('#ffee00');
    const [light, dark] = await Promise.all(
      ['light', 'dark'].map((mode) =>
        page.evaluate<string[]>(`(() => {
          const { backgroundColor, borderTopColor } = getComputedStyle(document.querySelector('.swatch[data-mode=${mode}]'));
          return [backgroundColor, borderTopColor];
        })()`),
      ),
    );
    // Yellow can hardly be seen on white, so the page outlines it there.
    expect([light?.[0], dark?.[0], dark?.[1]]).toEqual(Array(3).fill('rgb(255, 238, 0)'));
    expect(light?.[1]).not.toBe('rgb(255, 238, 0)');
    await page.getByLabel('Accent colour').fill('#ffee');
    expect(await sample('light').isVisible()).toBe(false);
  });

  test('changes one part of a brand and keeps the others, after showing what differs', async () => {
    const branding = {
      title: 'Lamp',
      accent: '#0b5fff',
      forward_to_checkout: true,
      price: 15,
      currency: 'JPY',
      texts: { ar: { buy: 'الآن' }, en: { buy: 'Grab it', wait: 'Soon' } },
    };
    const product = await operator.openCampaign({ name: 'Plain', branding });
    const { page, faults } = await openLoggedIn(`#/edit/${product}`);
    await until('the form is filled', async () => (await page.getByLabel('Name').inputValue()) === 'Plain', LIMIT_MS);
    await press(page, 'Review the change');
    await shows(page, 'Nothing was changed.');
    await fold(page, 'Sale page');
    expect(await page.getByLabel('Sale page as JSON').inputValue()).toBe('');
    expect(await page.getByLabel('Price', { exact: true }).inputValue()).toBe('15');
    await page.getByLabel('Headline').fill('Lamp two');
    const texts = page.getByRole('group', { name: 'A text of the page' });
    expect(await texts.count()).toBe(3);
    await texts.nth(2).getByLabel('Which text').selectOption('buy');
    await press(page, 'Review the change');
    await shows(page, 'This text is given twice in en.');
    await texts.nth(2).getByRole('button', { name: 'Remove' }).click();
    await press(page, 'Review the change');
    await page
      .getByRole('dialog')
      .getByRole('row', { name: /^Sale page .*Lamp two/ })
      .waitFor();
    await press(page, 'Store the change');
    await shows(page, 'The terms were changed.');
    const changed = { ...branding, title: 'Lamp two', texts: { ar: branding.texts.ar, en: { buy: 'Grab it' } } };
    expect((await read(product)).branding).toEqual(changed);
    expect(faults).toEqual([]);
  });

  test('takes JSON from experts, which replaces the fields', async () => {
    const product = await operator.openCampaign({ name: 'Expert', branding: { title: 'Old' } });
    const { page } = await openLoggedIn(`#/edit/${product}`);
    await until('the form is filled', async () => (await page.getByLabel('Name').inputValue()) === 'Expert', LIMIT_MS);
    await fold(page, 'Sale page');
    await press(page, 'Write the fields as JSON');
    const json = page.getByLabel('Sale page as JSON');
    await page.getByLabel('Price', { exact: true }).fill('1500.5');
    await page.getByLabel('Currency of the price').fill('JPY');
    await json.fill('');
    await press(page, 'Write the fields as JSON');
    await shows(page, 'Must be a whole number, because JPY has no decimals.');
    expect(await json.inputValue()).toBe('');
    for (const label of ['Price', 'Currency of the price']) await page.getByLabel(label, { exact: true }).fill('');
    await press(page, 'Write the fields as JSON');
    expect(JSON.parse(await json.inputValue())).toEqual({ title: 'Old' });
    await json.fill('{"title": "");');
    await press(page, 'Review the change');
    await shows(page, 'This is not JSON.');
    await json.fill('{"title": ""}');
    await press(page, 'Review the change');
    await shows(page, 'Must not be empty.');
    expect(await json.getAttribute('aria-invalid')).toBe('true');
    await json.fill('{"title": "By JSON"}');
    await press(page, 'Review the change');
    await press(page, 'Store the change');
    await shows(page, 'The terms were changed.');
    expect((await read(product)).branding).toEqual({ title: 'By JSON' });
  });

  test.each([
    { width: 1280, height: 800 },
    { width: 360, height: 740 },
  ])('meets no barrier that axe finds, and no sideways scrolling: $width', async (viewport) => {
    const { page } = await openLoggedIn('#/new', viewport);
    await fold(page, 'More terms');
    await fold(page, 'Sale page');
    await page.getByLabel('Accent colour').fill('#0b5fff');
    await press(page, 'Add a text');
    expect(await accessibilityFindings(page)).toEqual([]);
    expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true);
  });
});

inBrowser('the buckets by form', () => {
  test('divide a campaign, are refused above the number of shards, and are not offered for unique codes', async () => {
    const product = `divided-${randomUUID()}`;
    const { page } = await openLoggedIn('#/new');
    const buckets = page.getByLabel('Parts of the stock');
    await page.getByLabel('Product id').fill(product);
    await fold(page, 'More terms');
    await page.getByLabel('Type').selectOption('Unique codes');
    expect(await buckets.isVisible()).toBe(false);
    await page.getByLabel('Type').selectOption('Shared stock');
    await buckets.fill('3');
    await fold(page, 'More terms');
    await press(page, 'Create the campaign');
    await shows(page, 'Must be at most 2: each bucket needs a shard of its own, and SHARDS is 2.');
    await buckets.fill('2');
    await press(page, 'Create the campaign');
    await shows(page, 'The draft was created.');
    expect((await read(product)).buckets).toBe(2);
    await page.goto(`${service.url}/admin#/edit/${product}`);
    await page.getByRole('heading', { name: `Edit ${product}` }).waitFor({ timeout: LIMIT_MS });
    await fold(page, 'More terms');
    expect(await buckets.isVisible()).toBe(false);
  });
});
