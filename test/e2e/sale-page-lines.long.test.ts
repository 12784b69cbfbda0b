import { describe, expect, test } from '@jest/globals';
import type { Browser, Page } from 'playwright-core';
import { openPhone, startBrowser } from '../harness/browser.js';
import { Operator, PaymentService } from '../harness/clients.js';
import { sharedService } from '../harness/service.js';
import { arrive } from '../harness/shoppers.js';
import { until } from '../harness/until.js';

/** The panel of the sale page has the same lines, each with the same height, in every state of a product. */
const service = await sharedService();
const operator = new Operator(service.url);
const payments = new PaymentService(service.url);
const browser = await startBrowser();
const inBrowser = browser ? describe : describe.skip;

const LANGUAGES = ['en', 'id', 'zh', 'ar'];
const WIDTHS = [320, 360, 375, 390, 430, 900, 1280];
/**
 * The top and the height of each line of the panel in pixels, and the height of the panel. It grows for a moment when
 * the turn comes.
 */
const LINES = `(() => {
  const stage = document.getElementById('stage');
  for (const animation of stage.getAnimations()) animation.finish();
  const { top, height } = stage.getBoundingClientRect();
  const lines = [...stage.children].filter((line) => line.getClientRects().length > 0);
  return JSON.stringify([height, ...lines.map((line) => {
    const at = line.getBoundingClientRect();
    // On phones the action sticks to the end of the window.
    return line.className === 'act' ? at.height : [at.top - top, at.height];
  })].flat().map((pixels) => Math.round(pixels * 10) / 10));
})()`;

async function linesOf(page: Page): Promise<string[]> {
  const lines: string[] = [];
  for (const width of WIDTHS) {
    await page.setViewportSize({ width, height: 844 });
    lines.push(`${width}: ${await page.evaluate(LINES)}`);
  }
  return lines;
}

const hasMood = (page: Page, mood: string) =>
  until(`the panel is ${mood}`, async () => (await page.locator('#stage').getAttribute('data-mood')) === mood);

async function openPages(product: string): Promise<Map<string, Page>> {
  const pages = new Map<string, Page>();
  for (const locale of LANGUAGES) {
    const { page } = await openPhone(browser as Browser, { locale, timezoneId: 'Asia/Jakarta' });
    page.on('dialog', (dialog) => dialog.accept());
    await page.goto(`${service.url}/sale/${product}`);
    pages.set(locale, page);
  }
  return pages;
}

inBrowser('the panel of the sale page', () => {
  test('has the same lines of the same height in each state, on each screen and in each language', async () => {
    const product = await operator.openCampaign({
      total_limit: LANGUAGES.length,
      hold_seconds: 900,
      waiting_room: { enabled: true },
      checkout_url: `${service.url}/livez?order={order_id}`,
      starts_at: new Date(Date.now() + 3 * 86_400_000).toISOString(),
    });
    const pages = await openPages(product);
    const each = (work: (page: Page) => Promise<unknown>) => Promise.all([...pages.values()].map(work));
    const first = new Map<string, string[]>();
    const measure = async (state: string, of = pages) => {
      for (const [language, page] of of) {
        const lines = await linesOf(page);
        if (!first.has(language)) first.set(language, lines);
        expect([language, state, lines]).toEqual([language, state, first.get(language)]);
      }
    };
    await each((page) => page.locator('#clock').waitFor());
    await measure('before the start');

    const starts_at = new Date(Date.now() + 1_000).toISOString();
    await operator.call('PATCH', `/admin/campaigns/${product}`, { starts_at });
    await each(async (page) => {
      await page.reload();
      await page.locator('#act[aria-disabled=false]').waitFor();
    });
    await measure('open');

    const held = await Promise.all(
      LANGUAGES.map(async () => String((await arrive(service.url, product).checkout()).data.reservation_id)),
    );
    await each((page) => page.locator('#act').click());
    await each((page) => page.locator('#place').waitFor());
    await measure('in line');

    await operator.call('POST', `/admin/campaigns/${product}/pause`);
    await each((page) => hasMood(page, 'warn'));
    await measure('paused');
    await operator.call('POST', `/admin/campaigns/${product}/resume`);
    await each((page) => hasMood(page, 'plain'));

    await each((page) => page.context().setOffline(true));
    await each((page) => hasMood(page, 'warn'));
    await measure('offline');
    await each((page) => page.context().setOffline(false));
    await each((page) => hasMood(page, 'plain'));

    for (const reservation of held)
      await until('the unit returns', async () => (await payments.release(reservation)).status === 200);
    await each((page) => hasMood(page, 'turn'));
    await measure('at the turn');

    const [given, ...paid] = [...pages.values()] as [Page, ...Page[]];
    await given.locator('#second').click();
    await hasMood(given, 'off');
    for (const page of paid) {
      const order_id = await page.locator('#reference-id').textContent();
      const confirm = () => payments.say('confirm', { order_id });
      await until('it is paid', async () => (await confirm()).status === 200);
      await hasMood(page, 'good');
    }
    await measure('paid or given up');

    await operator.call('POST', `/admin/campaigns/${product}/close`);
    const closed = await openPages(product);
    for (const page of closed.values()) await page.locator('#rows').waitFor();
    await measure('closed', closed);
    const nowhere = await openPages('no-such-sale');
    for (const page of nowhere.values()) await page.locator('#rows').waitFor();
    await measure('unknown', nowhere);
  });
});
