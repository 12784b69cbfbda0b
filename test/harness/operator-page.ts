import { expect } from '@jest/globals';
import type { Browser, Page } from 'playwright-core';
import { accessibilityFindings, openPhone } from './browser.js';
import { ADMIN_SECRET } from './service.js';

/** A loaded machine draws late, and the page asks once a second. */
export const LIMIT_MS = 30_000;
export const SIZES = { desktop: { width: 1280, height: 800 }, phone: { width: 360, height: 740 } };

/** Presses a button that can be clicked. By the keyboard, because a button may move while the mouse is down. */
export async function press(page: Page, name: string): Promise<void> {
  const button = page.getByRole('button', { name, exact: true });
  await button.click({ trial: true });
  await button.press('Enter');
}
export const shows = (page: Page, text: string | RegExp) =>
  page.getByText(text).filter({ visible: true }).first().waitFor({ timeout: LIMIT_MS });
export const heading = (page: Page, name: string) =>
  page.getByRole('heading', { name, exact: true }).waitFor({ timeout: LIMIT_MS });

export async function logIn(page: Page, secret = ADMIN_SECRET): Promise<void> {
  await page.getByLabel('Admin key').fill(secret);
  await page.keyboard.press('Enter');
}

type Opened = ReturnType<typeof openPhone>;
type Options = { secret?: string; viewport?: { width: number; height: number }; timezoneId?: string };

/** Opens places of the operator’s page in a browser of their own, and logs in. */
export function pageOpener(browser: Browser | null, base: string) {
  return async (hash: string, { secret, ...context }: Options = {}): Opened => {
    const opened = await openPhone(browser as Browser, { viewport: SIZES.desktop, ...context });
    await opened.page.goto(`${base}/admin${hash}`);
    await logIn(opened.page, secret);
    await opened.page.locator('#top').waitFor({ timeout: LIMIT_MS });
    return opened;
  };
}

/** Checks that a page is accessible and no wider than its window. */
export async function expectSound(page: Page): Promise<void> {
  expect(await accessibilityFindings(page)).toEqual([]);
  expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true);
}
