import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { buildSync } from 'esbuild';
import { projectRoot } from '../../shared/config/project-root.js';
import { accessibilityFindings, openPhone, startBrowser } from '../harness/browser.js';
import { expectStock } from '../harness/checks.js';
import { atEnd } from '../harness/cleanup.js';
import { Operator, PaymentService, send } from '../harness/clients.js';
import { sharedService, startApiProcess } from '../harness/service.js';
import { arrive } from '../harness/shoppers.js';
import { until } from '../harness/until.js';

/**
 * The element and the hook in pages of a shop, whose origin is not that of the server. The shop is on this machine,
 * because browsers do not let a page of another network call it.
 */
const files = new Map<string, string>();
const shop = createServer((req, res) => {
  const type = req.url?.endsWith('.js') ? 'text/javascript' : 'text/html';
  res.writeHead(files.has(String(req.url)) ? 200 : 404, { 'Content-Type': `${type}; charset=utf-8` });
  res.end(files.get(String(req.url)));
}).listen(0, '127.0.0.1');
await once(shop, 'listening');
atEnd('the shop', () => {
  shop.closeAllConnections();
  shop.close();
});
const SHOP = `http://127.0.0.1:${(shop.address() as AddressInfo).port}`;
const service = await sharedService();
const { url } = await startApiProcess({ ...service.env, SHOP_ORIGINS: SHOP });
const operator = new Operator(service.url);
const payments = new PaymentService(service.url);
const browser = await startBrowser();
const inBrowser = browser ? describe : describe.skip;

/** Opens a page of the shop. */
async function openShop(html: string) {
  if (!browser) throw new Error('there is no browser');
  files.set('/lamp', `<!doctype html><html lang="en"><title>Shop</title>${html}`);
  const { page, faults } = await openPhone(browser);
  await page.goto(`${SHOP}/lamp`);
  return { page, faults };
}

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

test('modules of the client may be loaded by any page', async () => {
  const { status, headers } = await send(`${url}/assets/client/element.js`);
  expect([status, headers.get('access-control-allow-origin'), headers.get('cross-origin-resource-policy')]).toEqual([
    200,
    '*',
    'cross-origin',
  ]);
  expect((await send(`${url}/assets/client/react.js`)).status).toBe(404);
});

inBrowser('the element in a page of a shop', () => {
  test('takes a shopper from the line to the page to pay', async () => {
    const checkout_url = 'https://shop.example/pay?order={order_id}';
    const { product, held } = await heldByAnother({ checkout_url, branding: { accent: '#ffe000' } });
    const { page, faults } = await openShop(
      `<main><h1>Lamp</h1><doorbuster-sale product-id="${product}" user-id="ann" base-url="${url}"></doorbuster-sale></main>
      <script type="module" src="${url}/assets/client/element.js"></script>`,
    );
    const status = (wanted: string) =>
      until(
        `the element is ${wanted}`,
        async () => (await page.locator('doorbuster-sale').getAttribute('data-status')) === wanted,
      );
    await status('open');
    expect(await accessibilityFindings(page)).toEqual([]);
    const ofButton = "getComputedStyle(document.querySelector('doorbuster-sale').shadowRoot.querySelector('button'))";
    const colours = await page.evaluate(`(({ backgroundColor, color }) => [backgroundColor, color])(${ofButton})`);
    expect(colours).toEqual(['rgb(255, 224, 0)', 'rgb(0, 0, 0)']);
    await page.getByRole('button', { name: 'Get one now' }).click();
    await status('queued');
    await page.getByText('Place 1 of 1').waitFor();
    await payments.release(held);
    await status('promoted');
    const pay = page.getByRole('link', { name: /^Pay now · 1[0-5]:\d\d$/ });
    expect(await pay.getAttribute('href')).toMatch(/^https:\/\/shop\.example\/pay\?order=ord_/);
    expect(await accessibilityFindings(page)).toEqual([]);
    await page.getByRole('button', { name: 'Give it back' }).click();
    await status('released');
    await expectStock(operator, product, { total: 1, free: 1 });
    expect(faults).toEqual([]);
  });

  test('works where the browser forbids to store anything', async () => {
    if (!browser) throw new Error('there is no browser');
    const product = await operator.openCampaign({ total_limit: 1, hold_seconds: 900 });
    files.set(
      '/lamp',
      `<!doctype html><doorbuster-sale product-id="${product}" base-url="${url}"></doorbuster-sale>
      <script type="module" src="${url}/assets/client/element.js"></script>`,
    );
    const { page, faults } = await openPhone(browser);
    await page.addInitScript(() => {
      for (const name of ['localStorage', 'sessionStorage', 'indexedDB']) {
        const get = () => {
          throw new Error('the operation is insecure');
        };
        Object.defineProperty(globalThis, name, { get });
      }
    });
    await page.goto(`${SHOP}/lamp`);
    await page.getByRole('button', { name: 'Get one now' }).click();
    await page.getByText('You got one!').waitFor();
    await expectStock(operator, product, { total: 1, held: 1 });
    expect(faults).toEqual([]);
  });

  test('has the texts of the shop, and shows that a sale is sold out', async () => {
    const { product, held } = await heldByAnother();
    await payments.confirm(held);
    const { page } = await openShop(
      `<doorbuster-sale product-id="${product}" base-url="${url}"></doorbuster-sale>
      <script type="module" src="${url}/assets/client/element.js"></script>`,
    );
    await page.getByText('Sold out').waitFor();
    await page.evaluate("document.querySelector('doorbuster-sale').texts = { soldOut: 'Alle weg' }");
    await page.getByText('Alle weg').waitFor();
    expect(await page.getByRole('button').count()).toBe(0);
  });
});

inBrowser('a page that the server does not allow', () => {
  test('reads in the console which setting is missing', async () => {
    const { product } = await heldByAnother();
    const { page } = await openShop('<main><h1>Lamp</h1></main>');
    const warnings: string[] = [];
    page.on('console', (message) => {
      if (message.type() === 'warning') warnings.push(message.text());
    });
    // The shared service has no SHOP_ORIGINS.
    const message = await page.evaluate(`import('${service.url}/assets/client/sale.js').then(({ Sale }) =>
      new Sale({ baseUrl: '${service.url}', productId: '${product}', userId: 'ann', retryForMs: 0 })
        .campaign().then(() => 'allowed', (error) => error.message))`);
    expect(message).toContain(`add ${SHOP} to SHOP_ORIGINS of the server`);
    await until('the console has the warning', () => warnings.some((text) => text.includes('SHOP_ORIGINS')));
  });
});

inBrowser('the React hook', () => {
  test('follows a shopper, in strict mode too', async () => {
    const { product, held } = await heldByAnother();
    const { outputFiles } = buildSync({
      entryPoints: [join(projectRoot(), 'test/harness/react-shop.mjs')],
      bundle: true,
      write: false,
      format: 'esm',
      define: { 'process.env.NODE_ENV': '"development"' },
    });
    files.set('/shop.js', String(outputFiles[0]?.text));
    const { page, faults } = await openShop(
      `<body data-base-url="${url}" data-product-id="${product}"><div id="shop"></div><script type="module" src="/shop.js"></script>`,
    );
    const shows = (text: string) =>
      until(`the page shows ${text}`, async () => (await page.locator('#state').textContent()) === text);
    await shows('Midnight sale');
    await page.getByRole('button', { name: 'Buy' }).click();
    await shows('Midnight sale · queued · 1');
    await payments.release(held);
    await shows('Midnight sale · promoted');
    await page.getByRole('button', { name: 'Give back' }).click();
    await shows('Midnight sale · released');
    await expectStock(operator, product, { total: 1, free: 1 });
    expect(faults).toEqual([]);
  });
});
