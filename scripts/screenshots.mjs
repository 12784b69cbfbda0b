// `npm run screenshots`, while `npm start` runs: makes the pictures of the README from the running system. PORT and
// DATA_DIR as there.
import { mkdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { findChromium } from './engines/chromium.mjs';
import { helpOrGoOn } from './usage.mjs';
import { secretOf } from './welcome.mjs';

helpOrGoOn(`usage: npm run screenshots

Takes the pictures of the README from the service that \`npm start\` runs, with PORT and DATA_DIR as there. Creates campaigns in it,
and replaces the pictures in docs/pictures. It needs Chromium or Chrome, and takes one from the distribution if none is installed.
`);
const { chromium } = await import('playwright-core');
const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const FOLDER = join(ROOT, 'docs', 'pictures');
const ADDRESS = `http://127.0.0.1:${process.env.PORT ?? 8102}`;
const PHONE = { viewport: { width: 390, height: 720 }, deviceScaleFactor: 2, locale: 'en-GB' };

const secrets = JSON.parse(readFileSync(join(process.env.DATA_DIR ?? join(ROOT, '.data'), 'secrets.json'), 'utf8'));
const found = await findChromium();
if ('missing' in found) throw new Error(found.missing);
mkdirSync(FOLDER, { recursive: true });
const browser = await chromium.launch({
  executablePath: found.path,
  args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu'],
});
try {
  await takePictures();
  await takeOperatorPictures();
} finally {
  await browser.close();
}

async function takePictures() {
  const product = `pictures-${Date.now()}`;
  const startsAt = new Date(Date.now() + 3_600_000).toISOString();
  const terms = {
    name: 'Indomie flash sale',
    total_limit: 1,
    hold_seconds: 300,
    waiting_room: { enabled: true },
    checkout_url: 'https://shop.example/pay/{order_id}',
    branding: {
      description: 'Forty packs of Mi Goreng in a box, at half the price. One box for each shopper.',
      shop_name: 'Warung Malam',
      price: 6_250_000,
      currency: 'IDR',
      accent: '#c8102e',
    },
  };
  await ask('POST', '/admin/campaigns', secretOf(secrets.ADMIN_API_KEYS), { product_id: product, ...terms });
  const later = `${product}-later`;
  await ask('POST', '/admin/campaigns', secretOf(secrets.ADMIN_API_KEYS), {
    product_id: later,
    ...terms,
    starts_at: startsAt,
  });
  const first = await shopper(product, 'dark');
  await first.getByRole('button', { name: 'Get one now' }).click();
  await headline(first, 'You got one');
  const second = await shopper(product, 'light');
  await second.getByRole('button', { name: 'Get one now' }).click();
  await headline(second, 'Your place in line');
  await second.getByText('Updated').waitFor();
  await second.screenshot({ path: join(FOLDER, 'sale-in-line.png') });
  first.on('dialog', (dialog) => dialog.accept());
  await first.getByRole('button', { name: 'Give up my unit' }).click();
  await headline(second, 'It is your turn');
  await second.emulateMedia({ colorScheme: 'dark' });
  await second.screenshot({ path: join(FOLDER, 'sale-your-turn.png') });
  const waiting = await shopper(later, 'light');
  await headline(waiting, 'Opens in');
  await waiting.screenshot({ path: join(FOLDER, 'sale-before.png') });
}

/** Runs a sale for the operator's page: some users pay, one releases the unit, others wait. */
async function takeOperatorPictures() {
  const product = `pictures-${Date.now()}-busy`;
  const terms = {
    name: 'Midnight sale, party boxes',
    total_limit: 240,
    max_qty: 3,
    hold_seconds: 300,
    require_attestation: false,
    waiting_room: { enabled: true },
  };
  await ask('POST', '/admin/campaigns', secretOf(secrets.ADMIN_API_KEYS), { product_id: product, ...terms });
  const desktop = await operator(product, { viewport: { width: 1280, height: 1260 } }, 'light');
  const phone = await operator(product, PHONE, 'dark');
  let shoppers = 0;
  for (let tick = 0; tick < 24; tick += 1) {
    const crowd = Math.round(10 + 8 * Math.sin(tick / 3));
    await Promise.all(Array.from({ length: crowd }, (_, i) => buyAndPay(product, shoppers + i)));
    shoppers += crowd;
    await desktop.waitForTimeout(1_000);
  }
  await desktop.getByText('No unit is free').waitFor();
  await desktop.screenshot({ path: join(FOLDER, 'admin-campaign.png') });
  await phone.screenshot({ path: join(FOLDER, 'admin-phone.png') });
}

/**
 * @param {string} product
 * @param {number} number
 */
async function buyAndPay(product, number) {
  const { data } = /** @type {{ data: { reservation_id?: string } }} */ (
    await ask('POST', '/flash-sale/checkout', '', {
      product_id: product,
      user_id: `shopper-${String(number).padStart(4, '0')}`,
      qty: number % 7 === 0 ? 2 : 1,
      idempotency_key: `${product}-${number}`,
    })
  );
  if (!data.reservation_id || number % 5 === 0) return;
  await ask('POST', '/flash-sale/confirm', secretOf(secrets.SERVICE_API_KEYS), { reservation_id: data.reservation_id });
}

/**
 * @param {string} product
 * @param {import('playwright-core').BrowserContextOptions} options
 * @param {'light' | 'dark'} colorScheme
 */
async function operator(product, options, colorScheme) {
  const context = await browser.newContext({ locale: 'en-GB', ...options, colorScheme, reducedMotion: 'reduce' });
  const page = await context.newPage();
  await page.goto(`${ADDRESS}/admin#/campaigns/${product}`);
  await page.getByLabel('Admin key').fill(secretOf(secrets.ADMIN_API_KEYS));
  await page.keyboard.press('Enter');
  await headline(page, 'Midnight sale, party boxes');
  return page;
}

/**
 * @param {string} product
 * @param {'light' | 'dark'} colorScheme
 */
async function shopper(product, colorScheme) {
  const context = await browser.newContext({ ...PHONE, colorScheme, reducedMotion: 'reduce' });
  const page = await context.newPage();
  await page.goto(`${ADDRESS}/sale/${product}`);
  return page;
}

/**
 * @param {import('playwright-core').Page} page
 * @param {string} text
 */
function headline(page, text) {
  return page.getByRole('heading', { name: text, exact: true }).waitFor();
}

/**
 * @param {string} method
 * @param {string} path
 * @param {string} secret
 * @param {object} json
 * @returns {Promise<unknown>} the body of its response
 */
async function ask(method, path, secret, json) {
  const response = await fetch(ADDRESS + path, {
    method,
    headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
    body: JSON.stringify(json),
  });
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
  return response.json();
}
