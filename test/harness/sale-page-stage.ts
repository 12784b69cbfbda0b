import { afterEach, describe } from '@jest/globals';
import type { Page } from 'playwright-core';
import { openPhone, startBrowser } from './browser.js';
import { Operator, PaymentService } from './clients.js';
import { sharedService } from './service.js';
import { arrive } from './shoppers.js';

export const service = await sharedService();
export const operator = new Operator(service.url);
export const payments = new PaymentService(service.url);
export const browser = await startBrowser();
export const inBrowser = browser ? describe : describe.skip;

// Pages that stay open go on asking for the sale and counting seconds.
afterEach(async () => {
  await Promise.all((browser?.contexts() ?? []).map((context) => context.close()));
});

export const BUY = 'Get one now';
export const addressOf = (product: string, query = '') => `${service.url}/sale/${product}${query}`;

export async function openSale(product: string, query = '', options: Parameters<typeof openPhone>[1] = {}) {
  if (!browser) throw new Error('there is no browser');
  const phone = await openPhone(browser, options);
  await phone.page.goto(addressOf(product, query));
  return phone;
}

export const textOf = async (page: Page, id: string) => (await page.locator(`#${id}`).textContent()) ?? '';
/** Presses the button at one moment, unless what happened in another tab has already changed it. */
export function pressTwice(button: { textContent: string | null; click(): void }, name: string): void {
  if (button.textContent !== name) return;
  button.click();
  button.click();
}
/** The figures of the countdown, such as `0:14:59`. */
export const countdownOf = async (page: Page) => (await page.locator('#clock b').allTextContents()).join(':');
export const isLive = async (page: Page) =>
  ['In line', 'Reserved for you'].includes(await textOf(page, 'status')) &&
  (await textOf(page, 'updated')).startsWith('Updated') &&
  (await textOf(page, 'connection')) === '';
export const press = (page: Page, name: string) => page.getByRole('button', { name, exact: true }).click();

/** One unit, held by another user. */
export async function heldByAnother(terms: Record<string, unknown> = {}) {
  const product = await operator.openCampaign({
    name: 'Midnight sale',
    total_limit: 1,
    hold_seconds: 900,
    waiting_room: { enabled: true },
    ...terms,
  });
  return { product, held: String((await arrive(service.url, product).checkout()).data.reservation_id) };
}

/** Leaves no room for one more item, as other pages of the origin may. */
export function fillLocalStorage(): void {
  const { localStorage } = globalThis as unknown as { localStorage: { setItem(name: string, value: string): void } };
  for (let size = 2 ** 22; size > 0; size = Math.floor(size / 2)) {
    try {
      localStorage.setItem(`filler${size}`, 'x'.repeat(size));
    } catch {
      // A smaller one may fit.
    }
  }
}

/** An init script of a page: keeps what moved by itself, with the elements. */
export function countShifts(): void {
  type Shift = { value: number; hadRecentInput: boolean; sources: { node: { id?: string } | null }[] };
  const page = globalThis as unknown as {
    shifts: [number, string][];
    PerformanceObserver: new (seen: (list: { getEntries(): Shift[] }) => void) => { observe(options: object): void };
  };
  page.shifts = [];
  new page.PerformanceObserver((list) => {
    for (const { value, hadRecentInput, sources } of list.getEntries())
      if (!hadRecentInput) page.shifts.push([value, sources.map(({ node }) => node?.id).join(' ')]);
  }).observe({ type: 'layout-shift', buffered: true });
}

export const wide = async (page: Page) => page.evaluate('document.documentElement.scrollWidth');

export const branding = {
  title: 'Night <owl> "lamp"',
  description: 'A lamp for {readers} & owls.',
  shop_name: 'Lamp shop',
  shop_url: 'https://shop.example/home?a=1&b=2',
  order_url: 'https://shop.example/orders',
  image_url: 'https://images.example/lamp.jpg',
  image_alt: 'A lamp like an "owl"',
  logo_url: 'https://static.example/logo.svg',
  price: 1_250_000,
  currency: 'IDR',
  accent: '#ffe000',
  terms_url: 'https://shop.example/terms',
  privacy_url: 'https://shop.example/privacy',
  texts: { en: { buy: 'Grab the lamp' }, fa: { buy: 'بخر' } },
};
