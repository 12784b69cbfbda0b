import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import type { Browser } from 'playwright-core';
import { accessibilityFindings, forbidStorage, openPhone, showsHeadline as shows } from '../harness/browser.js';
import { expectStock } from '../harness/checks.js';
import { send } from '../harness/clients.js';
import { handOverOf, JWT_SECRET, jwtOf, SIGNING_KEY, secondsFromNow } from '../harness/identity.js';
import { EngineProxy } from '../harness/proxy.js';
import {
  addressOf,
  BUY,
  branding,
  browser,
  countdownOf,
  fillLocalStorage,
  heldByAnother,
  inBrowser,
  isLive,
  openSale,
  operator,
  payments,
  press,
  service,
  textOf,
} from '../harness/sale-page-stage.js';
import { startApiProcess } from '../harness/service.js';
import { arrive } from '../harness/shoppers.js';
import { until } from '../harness/until.js';

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
    await way.heal();
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
});
