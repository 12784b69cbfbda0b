import { spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from '@jest/globals';
import { projectRoot } from '../../shared/config/project-root.js';
import { atEnd } from '../harness/cleanup.js';
import { Operator, PaymentService } from '../harness/clients.js';
import { freePort } from '../harness/free-port.js';
import { FakeStripe, FakeStripeApi } from '../harness/payment-providers.js';
import { runProgram, startProgram } from '../harness/programs.js';
import { ADMIN_SECRET, PAY_LINK_KEYS, SERVICE_SECRET, sharedService, startApiProcess } from '../harness/service.js';
import { arrive } from '../harness/shoppers.js';
import { until } from '../harness/until.js';
import { ledger, untilWhole } from '../harness/verdict.js';

const PRODUCT = 'tiny-shop';
const service = await sharedService();
const operator = new Operator(service.url);
const stripe = await new FakeStripeApi(new FakeStripe(`${service.url}/payments/stripe`)).start();
const shopUrl = await startShop();

async function startShop(): Promise<string> {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const shop = spawn(process.execPath, [join(projectRoot(), 'dist/examples/tiny-shop/main.js')], {
    env: {
      PATH: process.env.PATH,
      PORT: String(port),
      SHOP_URL: url,
      DOORBUSTER_URL: service.url,
      ADMIN_KEY: ADMIN_SECRET,
      SERVICE_KEY: SERVICE_SECRET,
      PAY_LINK_KEYS,
      STRIPE_API_KEY: 'sk_test_of_the_tests',
      STRIPE_API_URL: stripe.url,
    },
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  const ended = new Promise((resolve) => shop.on('exit', resolve));
  atEnd('the shop', async () => {
    shop.kill();
    await ended;
  });
  await until('the shop is open', () =>
    fetch(url).then(
      ({ ok }) => ok,
      () => false,
    ),
  );
  return url;
}

async function buy() {
  const shopper = arrive(service.url, PRODUCT);
  const { data } = await shopper.checkout();
  return { id: String(data.reservation_id), link: String(data.checkout_url) };
}
/** Presses the button of the shop, and returns the page of Stripe where the shopper is sent. */
async function toStripe(link: string): Promise<string> {
  const response = await fetch(link, { method: 'POST', redirect: 'manual' });
  expect([response.status, await response.text()]).toEqual([303, expect.anything()]);
  return String(response.headers.get('location'));
}
const sessionOf = (paymentPage: string) => stripe.sessions.find(({ url }) => url === paymentPage);
const orderPage = async (id: string) => (await fetch(`${shopUrl}/orders/${id}`)).text();

it('sells a mug: the link to pay, the payment at Stripe, the order', async () => {
  const { id, link } = await buy();
  expect(link.startsWith(`${shopUrl}/pay?`)).toBe(true);
  expect(await (await fetch(link)).text()).toContain('Pay $19.00');
  const paymentPage = await toStripe(link);
  expect(await orderPage(id)).toContain('Waiting for the payment');
  await stripe.pay(paymentPage);
  await until('the order is paid', async () => (await orderPage(id)).includes('Paid. Thank you!'));
  expect(stripe.outcomes.at(-1)).toBe('confirmed');
  expect((await ledger(service.env, PRODUCT)).code).toBe(0);
});

it('has its price on the sale page, and its session outlives the reservation by no more than Stripe demands', async () => {
  const { data } = await operator.call('GET', `/admin/campaigns/${PRODUCT}`);
  expect(data.branding).toMatchObject({ price: 1900, currency: 'USD' });
  const before = Date.now();
  const paymentPage = await toStripe((await buy()).link);
  // Stripe takes no less than 30 minutes.
  const seconds = Number(sessionOf(paymentPage)?.expires_at) - before / 1000;
  expect([seconds >= 31 * 60, seconds < 31 * 60 + 120]).toEqual([true, true]);
});

it('makes one session for a shopper who presses twice', async () => {
  const { link } = await buy();
  const [one, other] = await Promise.all([toStripe(link), toStripe(link)]);
  expect(other).toBe(one);
});

it('takes no money for a reservation that is paid or was given up, although its link is valid', async () => {
  const [given, paid] = [await buy(), await buy()];
  await new PaymentService(service.url).release(given.id);
  await new PaymentService(service.url).confirm(paid.id, 'elsewhere');
  for (const { link } of [given, paid]) {
    const response = await fetch(link, { method: 'POST', redirect: 'manual' });
    expect([response.status, await response.text()]).toEqual([410, expect.stringContaining('nothing to pay')]);
  }
});

it('refunds a second payment', async () => {
  const { id, link } = await buy();
  const paymentPage = await toStripe(link);
  await new PaymentService(service.url).confirm(id, 'elsewhere');
  await stripe.pay(paymentPage);
  expect(stripe.outcomes.at(-1)).toBe('duplicate');
  await until('it is refunded', () => stripe.refunds.includes(String(sessionOf(paymentPage)?.payment_intent)));
});

it('has less than 200 lines', async () => {
  const files = ['shop.ts', 'page.ts', 'main.ts'].map((name) => join(projectRoot(), 'examples/tiny-shop', name));
  const texts = await Promise.all(files.map((file) => readFile(file, 'utf8')));
  expect(texts.join('').trimEnd().split('\n').length).toBeLessThan(200);
});

it('does not take a link that was changed', async () => {
  const { link } = await buy();
  for (const method of ['GET', 'POST']) {
    const response = await fetch(link.replace('qty=1', 'qty=9'), { method, redirect: 'manual' });
    expect([response.status, await response.text()]).toEqual([403, expect.stringContaining('not valid')]);
  }
});

it('expires the session of a reservation that has ended', async () => {
  const { id, link } = await buy();
  const paymentPage = await toStripe(link);
  await new PaymentService(service.url).release(id);
  await until('the order has ended', async () => (await orderPage(id)).includes('The time was over'));
  await until('the session is expired', () => sessionOf(paymentPage)?.status === 'expired');
});

it('refunds a payment that came too late', async () => {
  const { id, link } = await buy();
  const paymentPage = await toStripe(link);
  // The shopper pays in the moment in which the reservation ends.
  const session = sessionOf(paymentPage);
  if (session) session.status = 'complete';
  await new PaymentService(service.url).release(id);
  await stripe.pay(paymentPage);
  expect(stripe.outcomes.at(-1)).toBe('late');
  await until('the payment is refunded', () => stripe.refunds.includes(String(session?.payment_intent)));
  expect(await operator.stats(PRODUCT)).toMatchObject({ total: 100 });
  await untilWhole(service.env, PRODUCT);
});

it('names the setting that is missing when the stand-in for Stripe cannot report a payment', async () => {
  const { url, process: api } = await startApiProcess({ ...service.env, STRIPE_WEBHOOK_SECRETS: '' });
  const standInUrl = await startStandIn(url);
  const body = new URLSearchParams({ success_url: url, 'metadata[reservation_id]': 'r' });
  const made = await fetch(`${standInUrl}/v1/checkout/sessions`, { method: 'POST', body });
  const session = (await made.json()) as { url: string };
  const paid = await fetch(session.url, { method: 'POST', redirect: 'manual' });
  const text = await paid.text();
  expect([paid.status, text]).toEqual([
    502,
    expect.stringMatching(/^Doorbuster runs without STRIPE_WEBHOOK_SECRETS\./),
  ]);
  await api.stop();

  const crowd = await runExample('crowd', { DOORBUSTER_URL: service.url, SHOPPERS: '1' });
  expect([crowd.status, crowd.stderr]).toEqual([1, expect.stringMatching(/^http:[^\n]+: \d+ [^\n]*\n$/)]);
  const alone = await runExample('stand-in', { STRIPE_WEBHOOK_SECRETS: '' });
  expect([alone.status, alone.stderr]).toEqual([1, expect.stringMatching(/^STRIPE_WEBHOOK_SECRETS is missing\./)]);
});

const fileOf = (name: string) => join(projectRoot(), 'dist/examples/tiny-shop', `${name}.js`);
const runExample = (name: string, env: NodeJS.ProcessEnv) => runProgram(process.execPath, [fileOf(name)], env);

async function startStandIn(doorbusterUrl: string): Promise<string> {
  const port = await freePort();
  const env = { PORT: String(port), DOORBUSTER_URL: doorbusterUrl, STRIPE_WEBHOOK_SECRETS: 'whsec_of-a-stand-in' };
  const standIn = startProgram(process.execPath, [fileOf('stand-in')], projectRoot(), env);
  await until('the stand-in runs', () => standIn.output().includes('is at http'));
  return `http://127.0.0.1:${port}`;
}
