import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { verifyPayLink } from '../../server/verify.js';
import { projectRoot } from '../../shared/config/project-root.js';
import { expectProblem } from '../harness/checks.js';
import { Operator, PaymentService, Shopper, send } from '../harness/clients.js';
import { startTestServer } from '../harness/engines.js';
import { runProgram } from '../harness/programs.js';
import { PAY_LINK_KEYS, sharedService, startApiProcess } from '../harness/service.js';
import { arrive } from '../harness/shoppers.js';
import { openSocket } from '../harness/sockets.js';
import { until } from '../harness/until.js';

const service = await sharedService();
const operator = new Operator(service.url);
const payments = new PaymentService(service.url);
const TEMPLATE =
  'https://shop.example/pay/{product_id}?o={order_id}&r={reservation_id}&u={user_id}&n={qty}&t={expires_at}&s={signature}';
const TERMS = { total_limit: 1, hold_seconds: 900, max_qty: 3, checkout_url: TEMPLATE };

/** Expects a valid link with the values of a unit. */
function expectLink(url: unknown, unit: Record<string, unknown>, product: string, user: string, qty = 1): void {
  const { pathname, searchParams } = new URL(String(url));
  expect([pathname, Object.fromEntries(searchParams)]).toEqual([
    `/pay/${product}`,
    {
      o: unit.order_id,
      r: unit.reservation_id,
      u: user,
      n: String(qty),
      t: unit.pay_before,
      s: expect.stringMatching(/^v1\.c1\.\d+\./),
    },
  ]);
  expect(verifyPayLink(String(url), PAY_LINK_KEYS)).toMatchObject({ valid: true });
}

describe('checkout_url', () => {
  it('is in the response to a checkout, in its replay, in queue-status and in welcome', async () => {
    const product = await operator.openCampaign({ ...TERMS, total_limit: 3 });
    const shopper = arrive(service.url, product);
    const bought = (await shopper.checkout({ qty: 2 })).data;
    expectLink(bought.checkout_url, bought, product, shopper.user, 2);
    const status = await shopper.queueStatus({ 'x-ticket': String(shopper.ticket) });
    expect(status.data.checkout_url).toBe(bought.checkout_url);
    const socket = await openSocket(service.url, shopper.ticket);
    expect((await socket.frame('welcome')).checkout_url).toBe(bought.checkout_url);
    expect((await shopper.queueStatus({})).data).not.toHaveProperty('checkout_url');

    await operator.call('POST', `/admin/campaigns/${product}/close`);
    const closed = await shopper.queueStatus({ 'x-ticket': String(shopper.ticket) });
    expect(closed.data.checkout_url).toBe(bought.checkout_url);

    await payments.confirm(String(bought.reservation_id));
    const paid = await shopper.queueStatus({ 'x-ticket': String(shopper.ticket) });
    expect(paid.data.status).toBe('redeemed');
    expect(paid.data).not.toHaveProperty('checkout_url');
  });

  it('is in the frame of a promotion', async () => {
    const product = await operator.openCampaign({ ...TERMS, waiting_room: { enabled: true } });
    const buyer = arrive(service.url, product);
    const bought = (await buyer.checkout()).data;
    const next = arrive(service.url, product);
    expect((await next.checkout()).data).not.toHaveProperty('checkout_url');
    const socket = await openSocket(service.url, next.ticket);
    await socket.frame('welcome');
    await payments.release(String(bought.reservation_id));
    const promoted = await socket.frame('promoted');
    expectLink(promoted.checkout_url, promoted, product, next.user);
  });

  it('is absent where there is nothing to pay, and in campaigns without one', async () => {
    for (const terms of [
      { ...TERMS, hold_seconds: 0 },
      { ...TERMS, checkout_url: null },
    ]) {
      const product = await operator.openCampaign(terms);
      const shopper = arrive(service.url, product);
      expect((await shopper.checkout()).data).not.toHaveProperty('checkout_url');
      const status = await shopper.queueStatus({ 'x-ticket': String(shopper.ticket) });
      expect(status.data).not.toHaveProperty('checkout_url');
    }
  });

  it('is the same in a replay, whatever became of the template and the keys since', async () => {
    const product = await operator.openCampaign({ ...TERMS, total_limit: 5 });
    const other = await operator.openCampaign({ ...TERMS, checkout_url: null });
    const [shopper, without] = [arrive(service.url, product), arrive(service.url, other)];
    const first = await shopper.checkoutWithHeader('the-key-of-a-replay');
    expectLink(first.data.checkout_url, first.data, product, shopper.user);
    const plain = await without.checkoutWithHeader('the-key-without-a-link');
    const newer = `c2:${Buffer.alloc(32, 7).toString('base64')},${PAY_LINK_KEYS}`;
    const at = (url: string, { product, user, device }: Shopper) => new Shopper(url, product, user, device);
    const rotated = await startApiProcess({ ...service.env, PAY_LINK_KEYS: newer });
    for (const checkout_url of ['https://other.example/{order_id}', null, TEMPLATE]) {
      for (const one of [product, other]) await operator.call('PATCH', `/admin/campaigns/${one}`, { checkout_url });
      for (const url of [service.url, rotated.url]) {
        const again = await at(url, shopper).checkoutWithHeader('the-key-of-a-replay');
        expect([again.headers.get('idempotent-replayed'), again.text]).toEqual(['true', first.text]);
        expect((await at(url, without).checkoutWithHeader('the-key-without-a-link')).text).toBe(plain.text);
      }
    }
    const fresh = (await arrive(rotated.url, product).checkout()).data.checkout_url;
    expect(fresh).toContain('s=v1.c2.');
    expect(verifyPayLink(fresh, newer)).toMatchObject({ valid: true });
  });

  it('may be changed while the campaign is open, and an unknown placeholder is refused', async () => {
    const product = await operator.openCampaign({ ...TERMS, checkout_url: null, total_limit: 5 });
    const path = `/admin/campaigns/${product}`;
    const wrong = await operator.call('PATCH', path, { checkout_url: 'https://shop.example/{order}' });
    expectProblem(wrong, 400, 'invalid_request');
    expect(wrong.body.errors).toEqual([
      {
        pointer: '#/checkout_url',
        detail: expect.stringContaining('unknown placeholder {order}; did you mean {order_id}?'),
      },
    ]);
    expect((await operator.call('PATCH', path, { checkout_url: TEMPLATE })).data.checkout_url).toBe(TEMPLATE);
    const shopper = arrive(service.url, product);
    const bought = (await shopper.checkout()).data;
    expectLink(bought.checkout_url, bought, product, shopper.user);
  });
});

describe('an API without PAY_LINK_KEYS', () => {
  const env = { ...service.env, PAY_LINK_KEYS: '' };

  it('reports campaigns whose links it cannot sign', async () => {
    const product = await operator.openCampaign(TERMS);
    const { process: api, url } = await startApiProcess(env);
    const readinessOf = async (base: string) => (await send(`${base}/readyz`)).data;
    const reported = await until('it is degraded', async () => {
      const found = await readinessOf(url);
      return found.degraded.includes('pay_links') && found;
    });
    expect(reported.status).toBe('ready');
    expect((await arrive(url, product).checkout()).data).not.toHaveProperty('checkout_url');
    const isLogged = (text: string) => api.log.some((line) => line.includes(text) && line.includes(product));
    await until('both are logged', () => isLogged('campaigns have {signature}') && isLogged('get no link to pay'));
    expect((await readinessOf(service.url)).checks).not.toHaveProperty('pay_links');
  });

  it('does not start in production while a campaign needs them', async () => {
    const product = await operator.openCampaign(TERMS);
    const redis = await startTestServer(['--appendfsync', 'always']);
    const main = join(projectRoot(), 'dist/api/main.js');
    const production = { ...env, REDIS_URL: redis.url, NODE_ENV: 'production', SHOPPER_IDENTITY: 'gateway' };
    const { status, stderr } = await runProgram(process.execPath, [main], production);
    expect([status, stderr]).toEqual([1, expect.stringMatching(/^the API could not start: PAY_LINK_KEYS is not set/)]);
    expect(stderr).toContain(product);
  });
});
