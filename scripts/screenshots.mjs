// `npm run screenshots`, while `npm start` runs: makes the pictures of the README from the running system. PORT and DATA_DIR as
// there.
import { mkdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';
import { findChromium } from './engines/chromium.mjs';
import { secretOf } from './welcome.mjs';

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
} finally {
  await browser.close();
}

async function takePictures() {
  const product = `pictures-${Date.now()}`;
  const startsAt = new Date(Date.now() + 3_600_000).toISOString();
  const terms = { name: 'Indomie flash sale', total_limit: 1, hold_seconds: 300, waiting_room: { enabled: true } };
  await ask('POST', '/admin/campaigns', secretOf(secrets.ADMIN_API_KEYS), { product_id: product, ...terms });
  const later = `${product}-later`;
  await ask('POST', '/admin/campaigns', secretOf(secrets.ADMIN_API_KEYS), {
    product_id: later,
    ...terms,
    starts_at: startsAt,
  });
  const first = await shopper(product, 'dark');
  await first.getByRole('button', { name: 'Get one now' }).click();
  await headline(first, 'You got one!');
  const second = await shopper(product, 'light');
  await second.getByRole('button', { name: 'Get one now' }).click();
  await headline(second, 'You are in line');
  await second.getByText('Connected').waitFor();
  await second.screenshot({ path: join(FOLDER, 'sale-in-line.png') });
  first.on('dialog', (dialog) => dialog.accept());
  await first.getByRole('button', { name: 'Give it back' }).click();
  await headline(second, 'It is your turn!');
  await second.emulateMedia({ colorScheme: 'dark' });
  await second.screenshot({ path: join(FOLDER, 'sale-your-turn.png') });
  const waiting = await shopper(later, 'light');
  await headline(waiting, 'Not open yet');
  await waiting.screenshot({ path: join(FOLDER, 'sale-before.png') });
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
 */
async function ask(method, path, secret, json) {
  const response = await fetch(ADDRESS + path, {
    method,
    headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
    body: JSON.stringify(json),
  });
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
}
