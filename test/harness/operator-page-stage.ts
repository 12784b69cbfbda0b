import { describe } from '@jest/globals';
import type { Browser, Page } from 'playwright-core';
import { openPhone, startBrowser } from './browser.js';
import { Operator, PaymentService } from './clients.js';
import { heading, LIMIT_MS, logIn, SIZES } from './operator-page.js';
import { sharedService } from './service.js';
import { until } from './until.js';

export const service = await sharedService();
export const operator = new Operator(service.url);
export const payments = new PaymentService(service.url);
export const browser = await startBrowser();
export const inBrowser = browser ? describe : describe.skip;

export const textOf = async (page: Page, selector: string) => (await page.locator(selector).textContent()) ?? '';
export const number = (page: Page, name: string, value: string) =>
  until(`${name} is ${value}`, async () => (await textOf(page, `.tiles dd.${name}`)) === value, LIMIT_MS);

export async function openPage(options: Parameters<typeof openPhone>[1] = {}, url = service.url) {
  const opened = await openPhone(browser as Browser, { viewport: SIZES.desktop, ...options });
  await opened.page.goto(`${url}/admin`);
  return opened;
}

export async function openLoggedIn(hash = '#/', options: Parameters<typeof openPhone>[1] = {}) {
  const opened = await openPage(options);
  await logIn(opened.page);
  await heading(opened.page, 'Campaigns');
  if (hash !== '#/') await opened.page.goto(`${service.url}/admin${hash}`);
  return opened;
}

/** The pixels of a chart's canvas. */
export const drawn = (page: Page, chart: string) =>
  page
    .locator('figure', { hasText: chart })
    .locator('canvas')
    .first()
    .evaluate((canvas: any) => canvas.toDataURL() as string);
