import { randomUUID } from 'node:crypto';
import { afterEach, describe, expect, test } from '@jest/globals';
import type { Browser, Page } from 'playwright-core';
import type { ProductId } from '../../shared/domain/ids.js';
import { readCampaign } from '../harness/audit.js';
import {
  accessibilityFindings,
  forbidStorage,
  openPhone,
  showsHeadline as shows,
  startBrowser,
} from '../harness/browser.js';
import { expireNow } from '../harness/campaign.js';
import { expectStock } from '../harness/checks.js';
import { Operator, PaymentService, send } from '../harness/clients.js';
import { handOverOf, JWT_SECRET, jwtOf, SIGNING_KEY, secondsFromNow } from '../harness/identity.js';
import { EngineProxy } from '../harness/proxy.js';
import { startApiProcess, startService } from '../harness/service.js';
import { arrive } from '../harness/shoppers.js';
import { until } from '../harness/until.js';

const service = await startService({
  IMAGE_ORIGINS: 'https://images.example,https://static.example,https://img.example',
});
const operator = new Operator(service.url);
const payments = new PaymentService(service.url);
const browser = await startBrowser();
const inBrowser = browser ? describe : describe.skip;

// Pages that stay open go on asking for the sale and counting seconds.
afterEach(async () => {
  await Promise.all((browser?.contexts() ?? []).map((context) => context.close()));
});

const BUY = 'Get one now';
const addressOf = (product: string, query = '') => `${service.url}/sale/${product}${query}`;

async function openSale(product: string, query = '', options: Parameters<typeof openPhone>[1] = {}) {
  if (!browser) throw new Error('there is no browser');
  const phone = await openPhone(browser, options);
  await phone.page.goto(addressOf(product, query));
  return phone;
}

const textOf = async (page: Page, id: string) => (await page.locator(`#${id}`).textContent()) ?? '';
/** Presses the button at one moment, unless what happened in another tab has already changed it. */
function pressTwice(button: { textContent: string | null; click(): void }, name: string): void {
  if (button.textContent !== name) return;
  button.click();
  button.click();
}
/** The figures of the countdown, such as `0:14:59`. */
const countdownOf = async (page: Page) => (await page.locator('#clock b').allTextContents()).join(':');
const isLive = async (page: Page) =>
  ['In line', 'Reserved for you'].includes(await textOf(page, 'status')) &&
  (await textOf(page, 'updated')).startsWith('Updated') &&
  (await textOf(page, 'connection')) === '';
const press = (page: Page, name: string) => page.getByRole('button', { name, exact: true }).click();

/** One unit, held by another user. */
async function heldByAnother(terms: Record<string, unknown> = {}) {
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
function fillLocalStorage(): void {
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
function countShifts(): void {
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

const wide = async (page: Page) => page.evaluate('document.documentElement.scrollWidth');

test('the page and its parts are served with a policy that allows no script but its own', async () => {
  const { product } = await heldByAnother();
  const page = await send(addressOf(product));
  expect(page.status).toBe(200);
  expect(page.headers.get('content-type')).toBe('text/html; charset=utf-8');
  expect(page.headers.get('cache-control')).toBe('public, max-age=1');
  expect(page.headers.get('content-security-policy')).toContain("script-src 'self'");
  expect(page.headers.get('content-security-policy')).not.toContain('unsafe-inline');
  expect(page.headers.get('content-security-policy')).toContain("img-src 'self' data:;");
  expect(page.text).not.toMatch(/<script(?![^>]*\bsrc=)|\son\w+=|style=|https?:\/\//);
  const parts = [...page.text.matchAll(/(?:src|href)="(\/[^"]+)"/g)].map(([, path]) => String(path));
  // One script and one style: a returning visitor requests the page alone.
  expect(parts).toEqual([
    expect.stringMatching(/^\/assets\/sale-styles-[A-Z0-9]{8}\.css$/),
    expect.stringMatching(/^\/assets\/sale-[A-Z0-9]{8}\.js$/),
  ]);
  for (const path of parts) {
    const part = await send(service.url + path);
    expect([path, part.status]).toEqual([path, 200]);
    expect(part.headers.get('cache-control')).toBe('public, max-age=31536000, immutable');
    const again = await send(service.url + path, { headers: { 'if-none-match': String(part.headers.get('etag')) } });
    expect([path, again.status, again.text]).toEqual([path, 304, '']);
  }
  const again = await send(addressOf(product), { headers: { 'if-none-match': String(page.headers.get('etag')) } });
  expect([again.status, again.text]).toEqual([304, '']);
  for (const [asked, name, id] of [
    ['no%20product', '限时抢购', ''],
    ['no-such-sale', 'no-such-sale', 'no-such-sale'],
  ]) {
    const missing = await send(addressOf(String(asked)), { headers: { 'accept-language': 'zh' } });
    expect([missing.status, missing.headers.get('cache-control')]).toEqual([404, 'no-store']);
    expect(missing.text).toContain('<h2 id="headline" tabindex="-1">没有这个抢购活动</h2>');
    expect(missing.text).toContain(`<h1 id="name" dir="auto">${name}</h1>`);
    expect(missing.text).toContain(`<code id="reference-id">${id}</code>`);
    expect(missing.text).toContain(`<title>没有这个抢购活动 – ${name}</title>`);
  }
  expect((await send(`${service.url}/assets/client/package.json`)).status).toBe(404);
});

test('the public data may be cached for a second, and costs nothing while it does not change', async () => {
  const { product } = await heldByAnother();
  const get = (headers = {}) => send(`${service.url}/flash-sale/campaign?product_id=${product}`, { headers });
  const first = await get();
  expect([first.headers.get('cache-control'), first.headers.get('vary')]).toEqual(['public, max-age=1', 'Origin']);
  const etag = String(first.headers.get('etag'));
  const again = await get({ 'if-none-match': etag });
  expect([again.status, again.text, again.headers.get('etag')]).toEqual([304, '', etag]);
  await operator.call('POST', `/admin/campaigns/${product}/pause`);
  expect((await get({ 'if-none-match': etag })).data.status).toBe('paused');
});

const branding = {
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

test('the server renders the brand, its preview and the state, escaped, and allows images of the campaign alone', async () => {
  const { product } = await heldByAnother({ branding });
  const { text, headers } = await send(addressOf(product));
  expect(text).toContain('<title>Open now – Night &lt;owl&gt; &quot;lamp&quot;</title>');
  expect(text).toContain('<meta property="og:title" content="Night &lt;owl&gt; &quot;lamp&quot;">');
  expect(text).toContain('<meta property="og:image" content="https://images.example/lamp.jpg">');
  expect(text).toContain('alt="A lamp like an &quot;owl&quot;"');
  expect(text).toContain('<meta property="og:description" content="A lamp for &#123;readers} &amp; owls.">');
  expect(text).toContain('<h1 id="name" dir="auto">Night &lt;owl&gt; &quot;lamp&quot;</h1>');
  expect(text).toMatch(/<span class="price">IDR\s12,500<\/span>/);
  expect(text).toContain('<b>Pay within 15 minutes</b> Your unit is kept');
  expect(text).toContain('<p id="zone">Times are shown in Coordinated Universal Time.</p>');
  expect(text).toContain('<span>1 per person</span>');
  expect(text).not.toMatch(/<owl>|\{readers\}|\{\{/);
  expect(headers.get('content-security-policy')).toContain(
    "img-src 'self' data: https://images.example https://static.example;",
  );
  const persian = await send(addressOf(product, '?lang=fa'));
  expect(persian.text).toContain('<html lang="fa" dir="rtl">');
  expect(persian.text).toContain('بخر</button>');
  const { data } = await send(`${service.url}/flash-sale/campaign?product_id=${product}`);
  const { texts: _, ...look } = branding;
  expect(data.branding).toEqual(look);
});

test('a branding that is not safe is rejected', async () => {
  const wrong = [
    [{ image_url: 'http://images.example/a.jpg' }, '#/branding/image_url'],
    [{ image_url: 'https://images.example/a.jpg; script-src *' }, '#/branding/image_url'],
    [{ image_url: 'https://others.example/a.jpg' }, '#/branding/image_url'],
    [{ logo_url: 'https://images.example:444/a.jpg' }, '#/branding/logo_url'],
    [{ terms_url: 'javascript:alert(1)' }, '#/branding/terms_url'],
    [{ shop_url: 'http://shop.example/' }, '#/branding/shop_url'],
    [{ shop_url: 'http://localhost.shop.example/' }, '#/branding/shop_url'],
    [{ shop_url: 'http://localhost:80@shop.example/' }, '#/branding/shop_url'],
    [{ accent: 'red;}' }, '#/branding/accent'],
    [{ texts: { en: { buyy: 'x' } } }, '#/branding/texts/en/buyy'],
    [{ texts: { english: {} } }, '#/branding/texts/english'],
    [{ price: 1, currency: 'XYZ1' }, '#/branding/currency'],
    [{ price: 1 }, '#/branding/currency'],
    [{ currency: 'EUR' }, '#/branding/price'],
    [{ price: 1.5, currency: 'EUR' }, '#/branding/price'],
  ] as const;
  for (const [given, pointer] of wrong) {
    const answer = await operator.call('POST', '/admin/campaigns', {
      product_id: `sale-${randomUUID()}`,
      total_limit: 1,
      branding: given,
    });
    expect(answer.status).toBe(400);
    expect((answer.body.errors as { pointer: string }[]).map((one) => one.pointer)).toEqual([pointer]);
  }
});

test('the links of the page may lead to a shop on the machine of its developer', async () => {
  const { product } = await heldByAnother({ branding: { shop_url: 'http://localhost:3001/?a=1' } });
  expect((await send(addressOf(product))).text).toContain('<a href="http://localhost:3001/?a=1">');
});

test('only named origins may show the page in a frame', async () => {
  const { product } = await heldByAnother();
  const closed = await send(addressOf(product));
  expect(closed.headers.get('content-security-policy')).toContain("frame-ancestors 'self';");
  expect(closed.headers.get('x-frame-options')).toBe('SAMEORIGIN');
  const { url } = await startApiProcess({ ...service.env, SALE_PAGE_FRAME_ANCESTORS: 'https://shop.example' });
  const open = await send(`${url}/sale/${product}`);
  expect(open.headers.get('content-security-policy')).toContain("frame-ancestors 'self' https://shop.example;");
  expect(open.headers.get('x-frame-options')).toBeNull();
});

inBrowser('a link of the shop', () => {
  test.each(['#', '?'])('hands the shopper over behind %s, and leaves no trace in the address', async (mark) => {
    const { product } = await heldByAnother();
    const SHOPPER_SIGNING_KEYS = `s1:${SIGNING_KEY.toString('base64')}`;
    const { url } = await startApiProcess({ ...service.env, SHOPPER_SIGNING_KEYS });
    const user = `user-${randomUUID()}`;
    const handOver = handOverOf({ user_id: user, expires_at: secondsFromNow(600) });
    if (!browser) throw new Error('there is no browser');
    const { page } = await openPhone(browser);
    // Another user id in the link is not believed.
    const query =
      mark === '?' ? `?user_id=another-user&shopper=${handOver}` : `?user_id=another-user#shopper=${handOver}`;
    await page.goto(`${url}/sale/${product}${query}`);
    await shows(page, 'The sale is open');
    expect(page.url()).toBe(`${url}/sale/${product}?user_id=another-user`);
    await press(page, BUY);
    await shows(page, 'Your place in line');
    const status = (asked: string) =>
      send(`${url}/flash-sale/queue-status?product_id=${product}&user_id=${asked}`, {
        headers: { 'x-shopper': handOverOf({ user_id: asked, expires_at: secondsFromNow(60) }) },
      });
    expect((await status(user)).data.status).toBe('queued');
    expect((await status('another-user')).data.status).toBe('not_queued');
    await page.reload();
    await shows(page, 'Your place in line');
    await page.getByLabel('Language').selectOption('Bahasa Indonesia');
    await shows(page, 'Nomor antrean Anda');
    expect(page.url()).toBe(`${url}/sale/${product}?user_id=another-user&lang=id`);
  });

  test('with a user id alone lets no visitor act as that user where shoppers prove who they are', async () => {
    const { product } = await heldByAnother();
    const { url } = await startApiProcess({ ...service.env, SHOPPER_JWT_SECRET: JWT_SECRET });
    if (!browser) throw new Error('there is no browser');
    const { page } = await openPhone(browser);
    await page.goto(`${url}/sale/${product}?user_id=ann`);
    await shows(page, 'The sale is open');
    await press(page, BUY);
    await until('the page says what to do', async () => /sign in/.test(await textOf(page, 'trouble')));
    await page.goto(
      `${url}/sale/${product}?user_id=bob#access_token=${jwtOf({ sub: 'ann', exp: secondsFromNow(60) })}`,
    );
    await shows(page, 'The sale is open');
    expect(page.url()).not.toContain('access_token');
    await press(page, BUY);
    await shows(page, 'Your place in line');
    await expectStock(operator, product, { total: 1, held: 1, waiting: 1 });
  });
});

inBrowser('the page of a sale', () => {
  test('shows the place on a second device without what needs the ticket', async () => {
    const { product } = await heldByAnother();
    const user = `?user_id=user-${randomUUID()}`;
    const [first, second] = [await openSale(product, user), await openSale(product, user)];
    for (const { page } of [first, second]) {
      await press(page, BUY);
      await shows(page, 'Your place in line');
    }
    expect(await textOf(second.page, 'detail')).toBe('You checked out on another device. Continue there.');
    expect(await second.page.locator('#second').isHidden()).toBe(true);
    expect(await first.page.locator('#second').isVisible()).toBe(true);
    expect([first.faults, second.faults]).toEqual([[], []]);
  });

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

  test('takes two shoppers through it: in line, promoted, paid', async () => {
    const { product, held } = await heldByAnother();
    const [first, second] = [await openSale(product), await openSale(product, '', { timezoneId: 'Asia/Jakarta' })];
    await shows(first.page, 'The sale is open');
    await press(first.page, BUY);
    await shows(first.page, 'Your place in line');
    await until('its own time zone', async () => (await textOf(second.page, 'zone')).includes('Western Indonesia'));
    await press(second.page, BUY);
    await shows(second.page, 'Your place in line');
    expect(await textOf(second.page, 'position')).toBe('2');
    expect(await accessibilityFindings(second.page)).toEqual([]);

    await payments.release(held);
    await shows(first.page, 'It is your turn');
    expect(await first.page.title()).toMatch(/^★ Your turn: pay before .*\d\d:\d\d – Midnight sale$/);
    await until('the other one moved up', async () => (await textOf(second.page, 'position')) === '1');
    expect(await second.page.title()).toBe('Place 1 of 1 – Midnight sale');
    expect(await textOf(first.page, 'spoken')).toMatch(/^It is your turn\. Pay before/);
    expect(await countdownOf(first.page)).toMatch(/^0:1[45]:\d\d$/);
    expect(await textOf(first.page, 'reference-id')).toMatch(/^ord_/);
    expect(await first.page.locator('#steps li[aria-current=step]').getAttribute('data-step')).toBe('pay');
    expect(await second.page.locator('#steps li[aria-current=step]').getAttribute('data-step')).toBe('wait');
    expect(await accessibilityFindings(first.page)).toEqual([]);

    const order = await textOf(first.page, 'reference-id');
    const { rows } = await until('Postgres has it', async () => {
      const found = await service.database.client.query('select redemption_id from redemptions where order_id = $1', [
        order,
      ]);
      return found.rows.length === 1 && found;
    });
    await payments.confirm(String(rows[0]?.redemption_id));
    await shows(first.page, 'It is yours');
    expect(await first.page.title()).toBe('Paid – Midnight sale');
    expect(await textOf(first.page, 'caption')).toMatch(/^Paid at .*\d\d:\d\d/);
    await until('the age is shown', async () => (await textOf(first.page, 'updated')).startsWith('Updated'));
    // When that was is in no response.
    await first.page.reload();
    await shows(first.page, 'It is yours');
    expect(await textOf(first.page, 'caption')).toBe('');
    await expectStock(operator, product, { total: 1, redeemed: 1, waiting: 1 });
    expect([first.faults, second.faults]).toEqual([[], []]);
  });

  test('is the same after a reload and in a second tab', async () => {
    const { product, held } = await heldByAnother();
    const { context, page } = await openSale(product);
    await press(page, BUY);
    await shows(page, 'Your place in line');
    await page.reload();
    await shows(page, 'Your place in line');
    const second = await context.newPage();
    await second.goto(addressOf(product));
    await shows(second, 'Your place in line');
    await expectStock(operator, product, { total: 1, held: 1, waiting: 1 });

    await payments.release(held);
    await Promise.all([shows(page, 'It is your turn'), shows(second, 'It is your turn')]);
    await page.reload();
    await shows(page, 'It is your turn');
    expect(await textOf(page, 'reference-id')).toBe(await textOf(second, 'reference-id'));
    page.on('dialog', (dialog) => dialog.accept());
    await press(page, 'Give up my unit');
    await shows(page, 'You gave it back');
    await shows(second, 'You gave it back');
    await expectStock(operator, product, { total: 1, free: 1 });
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

  test.each([
    ['is full', fillLocalStorage],
    ['is forbidden, as are all others', forbidStorage],
  ])('keeps a unit over a reload where the storage %s', async (_, spoil) => {
    const product = await operator.openCampaign({ total_limit: 1, hold_seconds: 900 });
    const { page, faults } = await openPhone(browser as Browser);
    await page.addInitScript(spoil);
    await page.goto(addressOf(product));
    await press(page, BUY);
    await shows(page, 'You got one');
    await page.reload();
    await shows(page, 'You got one');
    await page.locator('#continue').waitFor();
    expect(faults).toEqual([]);
  });

  test('says that it is offline, and comes back with what was missed', async () => {
    const { product, held } = await heldByAnother();
    // Chromium leaves sockets open in its offline mode, so the proxy stops all bytes as well.
    const way = await EngineProxy.before(Number(new URL(service.url).port));
    const { context, page } = await openPhone(browser as Browser);
    await page.goto(addressOf(product).replace(service.url, `http://127.0.0.1:${way.port}`));
    await press(page, BUY);
    await until('it is connected', () => isLive(page));
    await way.swallow();
    await context.setOffline(true);
    await until('it says so', async () => (await textOf(page, 'connection')).startsWith('No connection'));
    expect(await textOf(page, 'headline')).toBe('Your place in line');
    await payments.release(held);
    await way.forward();
    await context.setOffline(false);
    await shows(page, 'It is your turn');
    await until('it is connected again', () => isLive(page));
  });

  test('opens by itself at the start, by the server’s clock and not by the phone’s', async () => {
    const inSeconds = (seconds: number) => new Date(Date.now() + seconds * 1_000).toISOString();
    const product = await operator.openCampaign({ total_limit: 1, hold_seconds: 0, starts_at: inSeconds(3_600) });
    const phone = await openSale(product);
    // A phone that is an hour late.
    await phone.context.addInitScript(() => {
      const { now } = Date;
      Date.now = () => now() - 3_600_000;
    });
    await phone.page.reload();
    await shows(phone.page, 'Opens in');
    expect(await countdownOf(phone.page)).toMatch(/^(1:00:00|0:59:\d\d)$/);
    const button = phone.page.locator('#act');
    expect(await button.getAttribute('aria-disabled')).toBe('true');
    expect(await button.textContent()).toMatch(/^Opens .*\d\d:\d\d/);
    await operator.call('PATCH', `/admin/campaigns/${product}`, { starts_at: inSeconds(5) });
    await phone.page.reload();
    await shows(phone.page, 'The sale is open');
    expect(await button.getAttribute('aria-disabled')).toBe('false');
    await button.click();
    await until('the shopper has it', async () => /You got one|It is yours/.test(await textOf(phone.page, 'headline')));
    expect(phone.faults).toEqual([]);
  });

  test('says what went wrong in words, and takes the shopper back', async () => {
    const product = await operator.openCampaign({ total_limit: 1, hold_seconds: 900 });
    const held = String((await arrive(service.url, product).checkout()).data.reservation_id);
    const { page, faults } = await openSale(product);
    await shows(page, 'Sold out');
    expect(await textOf(page, 'trouble')).toBe('');
    expect(await accessibilityFindings(page)).toEqual([]);
    await payments.release(held);
    await press(page, 'Try again');
    await shows(page, 'You got one');
    const nowhere = await openSale('no-such-sale');
    await shows(nowhere.page, 'There is no such sale');
    expect([faults, nowhere.faults]).toEqual([[], []]);
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

  test('waits out a pause by itself', async () => {
    const product = await operator.openCampaign({ total_limit: 1, hold_seconds: 900 });
    const { page } = await openSale(product);
    await shows(page, 'The sale is open');
    await operator.call('POST', `/admin/campaigns/${product}/pause`);
    await press(page, BUY);
    await shows(page, 'The sale is paused');
    await operator.call('POST', `/admin/campaigns/${product}/resume`);
    await shows(page, 'You got one');
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

  test('leads to the page to pay, forwards once if the campaign wants it, and shows paid on return', async () => {
    const checkout_url = `${service.url}/livez?order={order_id}`;
    const product = await operator.openCampaign({ total_limit: 2, per_user_limit: 2, hold_seconds: 900, checkout_url });
    const { page } = await openSale(product);
    await press(page, BUY);
    await shows(page, 'You got one');
    const pay = page.getByRole('link', { name: 'Pay now' });
    expect(await pay.textContent()).toMatch(/^Pay now 1[45]:\d\d$/);
    const order = await textOf(page, 'reference-id');
    expect(await pay.getAttribute('href')).toBe(checkout_url.replace('{order_id}', order));
    expect(await accessibilityFindings(page)).toEqual([]);

    const forwards = await operator.openCampaign({
      total_limit: 1,
      hold_seconds: 900,
      checkout_url,
      branding: { forward_to_checkout: true },
    });
    const { page: taken, context } = await openSale(forwards);
    await press(taken, BUY);
    await until('the page to pay is open', () => taken.url().includes('/livez?order=ord_'));
    const paid = new URL(taken.url()).searchParams.get('order');
    await taken.goto(addressOf(forwards));
    await shows(taken, 'You got one');
    expect(await textOf(taken, 'reference-id')).toBe(paid);
    const { rows } = await until('Postgres has it', async () => {
      const found = await service.database.client.query('select redemption_id from redemptions where order_id = $1', [
        paid,
      ]);
      return found.rows.length === 1 && found;
    });
    await payments.confirm(String(rows[0]?.redemption_id));
    const back = await context.newPage();
    await back.goto(addressOf(forwards));
    await shows(back, 'It is yours');
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
    await way.forward();
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

  test('promises no line where there is none, and offers the sale again when a unit returns', async () => {
    const product = await operator.openCampaign({ total_limit: 1, hold_seconds: 900 });
    const { page } = await openSale(product);
    await until('the sale is shown', async () => (await textOf(page, 'detail')) !== '');
    expect(await textOf(page, 'detail')).toBe('Press once. When all units are taken, the sale is over.');
    expect(await textOf(page, 'hint')).toBe('');
    const held = String((await arrive(service.url, product).checkout()).data.reservation_id);
    await press(page, BUY);
    await shows(page, 'Sold out');
    expect(await textOf(page, 'trouble')).toBe('');
    await until('the unit returns', async () => (await payments.release(held)).status === 200);
    await page.evaluate("dispatchEvent(new Event('online'))");
    await shows(page, 'The sale is open');
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

  test('is done with the keyboard alone, and the focus is never lost', async () => {
    const { product } = await heldByAnother();
    const { page } = await openSale(product);
    await shows(page, 'The sale is open');
    for (const control of ['language', 'act']) {
      await page.keyboard.press('Tab');
      expect(await page.evaluate('document.activeElement.id')).toBe(control);
    }
    await page.keyboard.press('Enter');
    await shows(page, 'Your place in line');
    expect(await page.evaluate('document.activeElement.id')).toBe('headline');
    await page.keyboard.press('Tab');
    const controls = ['other', 'continue', 'second'];
    for (const control of controls) {
      expect(await page.evaluate('document.activeElement.id')).toBe(control);
      await page.keyboard.press('Tab');
    }
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
