import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';
import { findChromium } from '../../scripts/engines/chromium.mjs';
import { atEnd } from './cleanup.js';
import { until } from './until.js';

/**
 * A real browser, or null and a visible word about it where none can be had.
 * @param needs `notifications`: a browser that can show them, which takes twice the CPU time
 */
export async function startBrowser(needs: { notifications?: boolean } = {}): Promise<Browser | null> {
  const found = await findChromium(needs);
  if ('missing' in found) {
    process.stderr.write(`\nSKIPPED: the tests in a browser. ${found.missing}\n`);
    return null;
  }
  const browser = await chromium.launch({
    executablePath: found.path,
    // Containers give a browser neither the rights for a sandbox nor much shared memory; our own pages are all it sees.
    args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu'],
  });
  atEnd('the browser', () => browser.close());
  return browser;
}

/** The browser of one user: storage of its own, the screen of a phone, and the errors that occurred in it. */
export async function openPhone(
  browser: Browser,
  options: Parameters<Browser['newContext']>[0] = {},
): Promise<{ context: BrowserContext; page: Page; faults: string[] }> {
  const context = await browser.newContext({ viewport: { width: 320, height: 640 }, locale: 'en-GB', ...options });
  const faults: string[] = [];
  context.on('weberror', (error) => faults.push(String(error.error())));
  context.on('console', (message) => {
    // Chromium writes every refused call there; those are expected. What the page's own policy forbids is not.
    if (message.type() === 'error' && !/Failed to load resource|WebSocket connection/.test(message.text()))
      faults.push(message.text());
  });
  return { context, page: await context.newPage(), faults };
}

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const RULES = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];

/** What axe finds wrong with the page as it is, by rule and place. */
export async function accessibilityFindings(page: Page): Promise<string[]> {
  // Evaluated, not put in as a script: the page's policy allows none but its own.
  await page.evaluate(AXE);
  return page.evaluate(async (tags) => {
    const { axe } = globalThis as unknown as {
      axe: {
        run(options: object): Promise<{ violations: { id: string; nodes: { target: string[]; html: string }[] }[] }>;
      };
    };
    const { violations } = await axe.run({ runOnly: tags });
    return violations.flatMap(({ id, nodes }) => nodes.map(({ target, html }) => `${id}: ${target} ${html}`));
  }, RULES);
}

/** Waits until a sale page has this headline. @throws Error with what the page shows instead */
export async function showsHeadline(page: Page, headline: string): Promise<void> {
  const isShown = async () => (await page.locator('#headline').textContent()) === headline;
  await until(`the page shows "${headline}"`, isShown).catch(async (cause) => {
    throw new Error(`${cause.message}; it shows:\n${await page.locator('main').textContent()}`, { cause });
  });
}

/** An init script of a page: as a browser that blocks the data of sites. */
export function forbidStorage(): void {
  const forbidden = () => {
    throw new Error('the operation is insecure');
  };
  for (const name of ['localStorage', 'sessionStorage', 'indexedDB'])
    Object.defineProperty(globalThis, name, { get: forbidden });
  const { navigator } = globalThis as unknown as { navigator: { locks: object } };
  Object.assign(navigator.locks, { request: async () => forbidden() });
}
