import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import type { Browser, Page } from 'playwright-core';
import type { ProductId } from '../../shared/domain/ids.js';
import { readCampaign } from '../harness/audit.js';
import { accessibilityFindings, openPhone, showsHeadline as shows } from '../harness/browser.js';
import { expireNow } from '../harness/campaign.js';
import { expectStock } from '../harness/checks.js';
import { send } from '../harness/clients.js';
import { EngineProxy } from '../harness/proxy.js';
import {
  addressOf,
  BUY,
  branding,
  browser,
  countdownOf,
  countShifts,
  heldByAnother,
  inBrowser,
  isLive,
  openSale,
  operator,
  payments,
  press,
  pressTwice,
  service,
  textOf,
  wide,
} from '../harness/sale-page-stage.js';
import { arrive } from '../harness/shoppers.js';
import { until } from '../harness/until.js';

inBrowser('the page of a sale', () => {
  test('does the work that a campaign asks for', async () => {
    const product = await operator.openCampaign({
      total_limit: 1,
      hold_seconds: 900,
      limits: { attestation_level: 1 },
    });
    const { page } = await openSale(product);
    await press(page, BUY);
    await shows(page, 'You got one');
  });

  test('begins one attempt when it is pressed in two tabs at once, and on every press', async () => {
    const product = await operator.openCampaign({ total_limit: 9, per_user_limit: 9, hold_seconds: 900 });
    const { context, page } = await openSale(product);
    const second = await context.newPage();
    await second.goto(addressOf(product));
    await Promise.all([page, second].map((tab) => shows(tab, 'The sale is open')));
    await Promise.all([page, second].map((tab) => tab.locator('#act').evaluate(pressTwice, BUY)));
    await Promise.all([page, second].map((tab) => shows(tab, 'You got one')));
    await expectStock(operator, product, { total: 9, free: 8, held: 1 });
  });

  test('gives one key to two tabs that begin in the same moment, each time', async () => {
    const { context, page } = await openSale(await operator.openCampaign({ total_limit: 1 }));
    const second = await context.newPage();
    await second.goto(page.url());
    const startMs = Date.now() + 1_000;
    // A seventh of these had two keys while they were kept in localStorage alone.
    const keys = `(async () => {
      const { KeptAttempt, defaultStore, randomId } = await import('/assets/client/attempt.js');
      const keys = [];
      for (let i = 0; i < 100; i += 1) {
        while (Date.now() < ${startMs} + 20 * i) await new Promise((resolve) => setTimeout(resolve, 0));
        const attempt = { key: randomId(), qty: 1 };
        keys.push((await new KeptAttempt(defaultStore(), 'product-' + i, 'user').claim(attempt)).key);
      }
      return keys.join(' ');
    })()`;
    const [mine, others] = await Promise.all([page.evaluate(keys), second.evaluate(keys)]);
    expect(new Set(String(mine).split(' ')).size).toBe(100);
    expect(others).toBe(mine);
  });

  test('shows when the time to pay is over, and lets the shopper try again', async () => {
    const product = await operator.openCampaign({ total_limit: 1, hold_seconds: 900 });
    const { page } = await openSale(product);
    await press(page, BUY);
    await shows(page, 'You got one');
    const { reservations } = await readCampaign(service.redis.client, product as ProductId);
    // Until a worker takes the unit back, it counts.
    service.worker.child.kill('SIGSTOP');
    try {
      await expireNow(service.redis.client, product, ...reservations.keys());
      await page.reload();
      await shows(page, 'Your reservation ended');
      const refused = page.waitForResponse((response) => response.status() === 409);
      await press(page, 'Try again');
      expect(await (await refused).json()).toMatchObject({ code: 'already_redeemed' });
    } finally {
      service.worker.child.kill('SIGCONT');
    }
    await shows(page, 'You got one');
  });

  test('shows how many wait for the unit of a shopper who did not pay', async () => {
    const { product } = await heldByAnother({ total_limit: 2 });
    const { page } = await openSale(product);
    await press(page, BUY);
    await shows(page, 'You got one');
    for (const _ of [1, 2, 3]) await arrive(service.url, product).checkout();
    const { reservations } = await readCampaign(service.redis.client, product as ProductId);
    await expireNow(service.redis.client, product, ...reservations.keys());
    await shows(page, 'Your reservation ended');
    await until('one still waits', async () => (await textOf(page, 'place')).trim() === '1 waiting now');
    expect(await textOf(page, 'detail')).toMatch(/^The next person got your unit\./);
    expect(await textOf(page, 'reference-id')).toMatch(/^ord_/);
    expect(await accessibilityFindings(page)).toEqual([]);
    await page.reload();
    await shows(page, 'Your reservation ended');
    await until('the number is back', async () => (await textOf(page, 'place')).trim() === '1 waiting now');
    expect(await textOf(page, 'caption')).toMatch(/^Ended at .*\d\d:\d\d/);
  });

  test('shows first what its script shows then, in each state of a sale', async () => {
    const plain = { total_limit: 1, hold_seconds: 900 };
    const line = { ...plain, waiting_room: { enabled: true } };
    const open = (terms: object) => operator.openCampaign({ name: 'Night sale', ...terms });
    const act = (product: string, action: string) => operator.call('POST', `/admin/campaigns/${product}/${action}`);
    const running = await open({ ...line, ends_at: '2099-01-01T00:00:00Z' });
    const later = await open({ ...plain, starts_at: '2099-01-01T00:00:00Z' });
    const [paused, sold, over] = [await open(plain), await open(plain), await open(plain)];
    await Promise.all([act(paused, 'pause'), act(over, 'close'), arrive(service.url, sold).checkout()]);
    const pieces = ['name', 'status', 'headline', 'caption', 'detail', 'act', 'hint'];
    for (const product of [running, later, paused, sold, over]) {
      const options = { locale: 'en', timezoneId: 'UTC' };
      const still = await openPhone(browser as Browser, { ...options, javaScriptEnabled: false });
      await still.page.goto(addressOf(product));
      const { page } = await openSale(product, '', options);
      await until('its script has begun', async () => (await page.title()).includes(' – '));
      await until('the script shows the same', async () => {
        const [first, then] = await Promise.all(
          [still.page, page].map((one) => Promise.all(pieces.map((id) => textOf(one, id)))),
        );
        return JSON.stringify(first) === JSON.stringify(then);
      });
    }
  });

  test.each(['no-such-sale', 'no%20sale'])('moves nothing after the first paint of %s', async (asked) => {
    for (const width of [320, 390, 1280]) {
      const { page } = await openPhone(browser as Browser, { viewport: { width, height: 800 } });
      await page.addInitScript(countShifts);
      await page.goto(addressOf(asked));
      await shows(page, 'There is no such sale');
      await until('its script has begun', async () => (await page.locator('#rows').textContent()) !== '');
      expect(await page.evaluate('shifts')).toEqual([]);
      expect(await accessibilityFindings(page)).toEqual([]);
    }
  });

  test('moves nothing after the first paint of a sale that is sold out', async () => {
    const product = await operator.openCampaign({ total_limit: 1, hold_seconds: 900 });
    await arrive(service.url, product).checkout();
    const { page } = await openPhone(browser as Browser);
    await page.addInitScript(countShifts);
    await page.goto(addressOf(product));
    await until('its script has begun', async () => (await textOf(page, 'updated')) !== '');
    expect(await page.evaluate('shifts')).toEqual([]);
  });

  test('keeps everything in its place when the order number comes, in Arabic at 320 px', async () => {
    const product_id = `s-${randomUUID().slice(0, 8)}`;
    await operator.openCampaign({ product_id, total_limit: 1, hold_seconds: 900 });
    const { page } = await openSale(product_id, '?lang=ar');
    await page.locator('#act[aria-disabled=false]').waitFor();
    const steps = () => page.evaluate("document.getElementById('steps').getBoundingClientRect().top + scrollY");
    const before = await steps();
    await page.locator('#act').click();
    await until('the order has a number', async () => (await textOf(page, 'reference-id')).startsWith('ord_'));
    expect(await steps()).toBe(before);
  });

  test('shows the brand on phone and desktop, in light and dark, with an accent that can be read', async () => {
    const { product } = await heldByAnother({ branding: { ...branding, image_url: undefined, logo_url: undefined } });
    for (const colorScheme of ['light', 'dark'] as const) {
      for (const viewport of [
        { width: 320, height: 640 },
        { width: 1280, height: 800 },
      ]) {
        const { page, faults } = await openSale(product, '', { colorScheme, viewport });
        await until('the button is there', async () => (await textOf(page, 'act')) === 'Grab the lamp');
        expect(await accessibilityFindings(page)).toEqual([]);
        expect(await wide(page)).toBe(viewport.width);
        expect(faults).toEqual([]);
      }
    }
  });

  test('fits into 195 px, with days until the start and with an amount to pay', async () => {
    const terms = { total_limit: 1, hold_seconds: 900, branding: { price: 12_900, currency: 'EUR' } };
    const starts_at = new Date(Date.now() + 25.5 * 86_400_000).toISOString();
    const later = await operator.openCampaign({ ...terms, starts_at });
    const now = await operator.openCampaign({ ...terms, checkout_url: 'https://shop.example/{order_id}' });
    const viewport = { width: 195, height: 640 };
    for (const lang of ['en', 'ar']) {
      const { page: before } = await openSale(later, `?lang=${lang}`, { viewport });
      await until('the days are shown', async () => (await countdownOf(before)).startsWith('25:'));
      expect(await wide(before)).toBe(195);
    }
    const { page } = await openSale(now, '', { viewport });
    await press(page, BUY);
    await until('the amount is shown', async () => (await textOf(page, 'position')) === '€129.00');
    expect(await wide(page)).toBe(195);
  });

  test('continues on another device by a link that the shopper shares', async () => {
    const { product, held } = await heldByAnother();
    const { page, context } = await openSale(product);
    await context.grantPermissions(['clipboard-read', 'clipboard-write']);
    await press(page, BUY);
    await shows(page, 'Your place in line');
    await press(page, 'Switch device');
    await until('the link is copied', async () => (await textOf(page, 'connection')).startsWith('The link is copied'));
    const link = String(await page.evaluate('navigator.clipboard.readText()'));
    expect(link).toMatch(new RegExp(`^${addressOf(product)}#continue=`));
    const { page: other } = await openPhone(browser as Browser);
    await other.goto(link);
    await shows(other, 'Your place in line');
    expect(other.url()).toBe(addressOf(product));
    await payments.release(held);
    await Promise.all([page, other].map((one) => shows(one, 'It is your turn')));
    await other.reload();
    await shows(other, 'It is your turn');
    other.on('dialog', (dialog) => dialog.accept());
    await press(other, 'Give up my unit');
    await Promise.all([page, other].map((one) => shows(one, 'You gave it back')));
    await expectStock(operator, product, { total: 1, free: 1 });
  });

  test('shows a pause to a shopper in line, and that the sale continues', async () => {
    const { product } = await heldByAnother();
    const { page } = await openSale(product);
    await press(page, BUY);
    await shows(page, 'Your place in line');
    await until('it is connected', () => isLive(page));
    const says = (text: string) =>
      until(`it says ${text}`, async () => (await textOf(page, 'detail')).startsWith(text) && textOf(page, 'spoken'));
    await operator.call('POST', `/admin/campaigns/${product}/pause`);
    expect(await says('Places and reservations are kept')).toMatch(/^The sale is paused\. Paused at .*\. Places/);
    expect(await textOf(page, 'caption')).toMatch(/^Paused at .*\d\d:\d\d/);
    await page.reload();
    await says('Places and reservations are kept');
    await shows(page, 'The sale is paused');
    await operator.call('POST', `/admin/campaigns/${product}/resume`);
    await says('Keep this page open');
  });

  test('shows that no news arrives while the server is frozen', async () => {
    const { product } = await heldByAnother();
    const way = await EngineProxy.before(Number(new URL(service.url).port));
    const { page } = await openPhone(browser as Browser);
    await page.goto(addressOf(product).replace(service.url, `http://127.0.0.1:${way.port}`));
    await press(page, BUY);
    await until('it is up to date', () => isLive(page));
    expect(await textOf(page, 'updated')).toMatch(/^Updated \d s ago$/);
    await way.swallow();
    await until('it says so', async () => (await textOf(page, 'status')) === 'Reconnecting');
    expect(await textOf(page, 'connection')).toMatch(/^(Your place is safe|No connection)/);
    expect(await textOf(page, 'updated')).toBe('');
    await way.heal();
    await until('it is up to date again', async () => (await textOf(page, 'updated')).startsWith('Updated'));
  });

  test('tells a visitor too that no news arrives, and looks again when asked', async () => {
    const { product } = await heldByAnother();
    const { context, page, faults } = await openSale(product);
    await until('it is up to date', async () => (await textOf(page, 'updated')).startsWith('Updated'));
    await context.route('**/flash-sale/**', (route) => route.abort());
    await until('it says so', async () => (await textOf(page, 'status')) === 'Reconnecting');
    expect(await textOf(page, 'caption')).toMatch(/^No news for \d+ s$/);
    expect(await textOf(page, 'connection')).toBe('We keep trying, and this page continues by itself.');
    expect(await textOf(page, 'act')).toBe(BUY);
    expect(await accessibilityFindings(page)).toEqual([]);
    await context.unroute('**/flash-sale/**');
    await press(page, 'Try now');
    await until('it is up to date again', async () => (await textOf(page, 'status')) === 'Open now');
    expect(faults).toEqual([]);
  });

  test('shows the days until the start, with the weekday and the zone of the time', async () => {
    const starts_at = new Date(Date.now() + 12.5 * 86_400_000).toISOString();
    const product = await operator.openCampaign({ total_limit: 1, starts_at });
    const { page } = await openSale(product, '', { timezoneId: 'Asia/Jakarta' });
    await shows(page, 'Opens in');
    expect(await page.locator('#clock i').allTextContents()).toEqual(['days', 'hours', 'minutes']);
    const calendar = String(await page.getByRole('link', { name: 'Add to calendar' }).getAttribute('href'));
    const file = await send(service.url + calendar);
    expect(file.headers.get('content-type')).toBe('text/calendar; charset=utf-8');
    expect(file.text).toContain(`DTSTART:${starts_at.replace(/[-:]|\.\d+/g, '')}\r\n`);
    expect((await send(`${service.url}/sale/no-such-sale/start.ics`)).status).toBe(404);
    expect(await countdownOf(page)).toMatch(/^12:(12:00|11:59)$/);
    expect(await textOf(page, 'act')).toMatch(/^Opens (Mon|Tue|Wed|Thu|Fri|Sat|Sun),? .*\d\d:\d\d$/);
    expect(await textOf(page, 'caption')).toMatch(/^(Mon|Tue|Wed|Thu|Fri|Sat|Sun),? .*\d\d:\d\d (GMT\+7|WIB)$/);
    expect(await accessibilityFindings(page)).toEqual([]);
    expect(await wide(page)).toBe(320);
  });

  test('shows no more time to pay after a reload than there is', async () => {
    const { product, held } = await heldByAnother();
    const { page } = await openSale(product);
    await press(page, BUY);
    await shows(page, 'Your place in line');
    await until('the unit returns', async () => (await payments.release(held)).status === 200);
    await shows(page, 'It is your turn');
    const find = `select (extract(epoch from pay_before) * 1000)::float8 as ms from redemptions r
      join campaigns c using (campaign_id) where c.product_id = $1 and r.status = 'reserved'`;
    const due = await until(
      'the row is there',
      async () => (await service.database.client.query(find, [product])).rows[0]?.ms as number,
    );
    const openedMs = performance.now();
    await until('the data of the sale that the browser has kept are old', () => performance.now() - openedMs > 6_000);
    await page.reload();
    await shows(page, 'It is your turn');
    await until('the page shows the time that is left', async () => {
      const [, minutes, seconds] = (await countdownOf(page)).split(':').map(Number);
      return Number(minutes) * 60 + Number(seconds) <= (due - Date.now()) / 1000 + 3;
    });
  });

  test('shows and speaks one message when the line is full', async () => {
    const { product } = await heldByAnother({ waiting_room: { enabled: true, max_size: 1 } });
    await arrive(service.url, product).checkout();
    const { page } = await openSale(product);
    await press(page, BUY);
    await shows(page, 'The line is full');
    const detail = 'All units are taken, and no place in line is free. Try again in a while.';
    expect([await textOf(page, 'detail'), await textOf(page, 'trouble')]).toEqual([detail, '']);
    expect(await textOf(page, 'spoken')).toBe(`The line is full. ${detail}`);
    expect(await accessibilityFindings(page)).toEqual([]);
  });

  test('offers the sale again when a unit returned before it had looked', async () => {
    const product = await operator.openCampaign({ total_limit: 1, hold_seconds: 900 });
    const { page } = await openSale(product);
    await shows(page, 'The sale is open');
    const held = String((await arrive(service.url, product).checkout()).data.reservation_id);
    // What the page learns after the refusal is what it had before: 304.
    let goOn = () => {};
    const returned = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    await page.route('**/flash-sale/campaign?*', async (route) => {
      await returned;
      await route.continue();
    });
    await press(page, BUY);
    await shows(page, 'Sold out');
    await until('the unit returns', async () => (await payments.release(held)).status === 200);
    goOn();
    await shows(page, 'The sale is open');
  });

  test('vibrates at the promotion, unless the shopper has turned it off', async () => {
    const { product, held } = await heldByAnother();
    const phones = [await openSale(product), await openSale(product)];
    for (const { context, page } of phones) {
      await context.addInitScript('globalThis.shakes = 0; navigator.vibrate = () => Boolean(++globalThis.shakes);');
      await page.reload();
    }
    const [first, second] = phones.map(({ page }) => page) as [Page, Page];
    await press(first, BUY);
    await shows(first, 'Your place in line');
    await second.getByRole('checkbox').uncheck();
    await press(second, BUY);
    await shows(second, 'Your place in line');
    await payments.release(held);
    await shows(first, 'It is your turn');
    first.on('dialog', (dialog) => dialog.accept());
    await press(first, 'Give up my unit');
    await shows(second, 'It is your turn');
    expect([await first.evaluate('shakes'), await second.evaluate('shakes')]).toEqual([1, 0]);
  });

  test('shows waiting shoppers that the line is closed', async () => {
    const { product } = await heldByAnother();
    const { page } = await openSale(product);
    await press(page, BUY);
    await until('it is connected', () => isLive(page));
    await operator.call('POST', `/admin/campaigns/${product}/close`);
    await shows(page, 'The line is closed');
    expect((await openSale(product)).page.url()).toContain(product);
  });

  for (const [lang, headline] of [
    ['en', 'The sale is open'],
    ['id', 'Promo sedang berlangsung'],
    ['zh', '抢购进行中'],
    ['ar', 'البيع مفتوح الآن'],
  ] as const) {
    test(`speaks ${lang}, by its address and by the browser's language, in dark and light, at 320 px`, async () => {
      const { product } = await heldByAnother();
      for (const colorScheme of ['light', 'dark'] as const) {
        const { page } = await openSale(product, '', { locale: lang, colorScheme });
        await shows(page, headline);
        expect(await page.locator('html').getAttribute('lang')).toBe(lang);
        expect(await page.locator('html').getAttribute('dir')).toBe(lang === 'ar' ? 'rtl' : 'ltr');
        const side = await page.evaluate("getComputedStyle(document.getElementById('name')).textAlign");
        expect(side).toBe(lang === 'ar' ? 'right' : 'left');
        expect(await accessibilityFindings(page)).toEqual([]);
        expect(await wide(page)).toBe(320);
      }
      const { page } = await openSale(product, `?lang=${lang}`, { locale: lang === 'en' ? 'zh' : 'en' });
      await shows(page, headline);
    });
  }
});
