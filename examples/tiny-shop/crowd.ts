import { MemoryStore, Refusal, Sale } from '../../client/sale.js';

/**
 * Shoppers who press the button in the same moment. Those who get a mug pay at once, on the pages of the shop and of
 * the stand-in for Stripe. The others are in line.
 */
const { DOORBUSTER_URL = 'http://127.0.0.1:8102', SHOPPERS = '120' } = process.env;
const run = Date.now().toString(36);
const results = { paid: 0, 'in line': 0, 'sold out': 0 };

async function shop(number: number): Promise<keyof typeof results> {
  const sale = new Sale({
    baseUrl: DOORBUSTER_URL,
    productId: 'tiny-shop',
    userId: `shopper-${run}-${number}`,
    store: new MemoryStore(),
  });
  try {
    const { status, checkout_url } = await sale.attempt();
    if (status === 'queued') return 'in line';
    if (!checkout_url) throw new Error(`expected a link to pay, and the status is ${status}`);
    await pay(checkout_url);
    return 'paid';
  } catch (error) {
    if (error instanceof Refusal && error.code === 'sold_out') return 'sold out';
    throw error;
  } finally {
    sale.stop();
  }
}

/** Presses the button of the shop, then the one of the payment page. */
async function pay(link: string): Promise<void> {
  const toPayment = await press(link);
  await press(toPayment);
}
/** @returns where the shopper is sent */
async function press(url: string): Promise<string> {
  const response = await fetch(url, { method: 'POST', redirect: 'manual' });
  if (response.status !== 303) throw new Error(`${url}: ${response.status} ${await response.text()}`);
  return String(response.headers.get('location'));
}

try {
  for (const result of await Promise.all(Array.from({ length: Number(SHOPPERS) }, (_, i) => shop(i))))
    results[result] += 1;
  process.stdout.write(`${JSON.stringify(results)}\n`);
} catch (error) {
  // The other shoppers end with the first one that fails.
  process.stderr.write(`${(error as Error).message}\n`);
  process.exit(1);
}
