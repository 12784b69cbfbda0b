import { execFile } from 'node:child_process';
import { request } from 'node:http';
import { networkInterfaces } from 'node:os';
import { promisify } from 'node:util';
import { describe, expect, test } from '@jest/globals';
import { problemSchema } from '../../api/http/problem-schema.js';
import { createDemoCampaigns, DEMO_CAMPAIGN } from '../../scripts/demo.mjs';
import type { Keys, Settings } from '../../scripts/settings.mjs';
import { welcome } from '../../scripts/welcome.mjs';
import { ERROR_CODES, ERRORS } from '../../shared/errors/catalogue.js';
import { accessibilityFindings, openPhone, startBrowser } from '../harness/browser.js';
import { Operator, Shopper } from '../harness/clients.js';
import { ADMIN_SECRET, SERVICE_SECRET, sharedService, startApiProcess } from '../harness/service.js';
import { until } from '../harness/until.js';

const service = await sharedService();
/** Without the proxy that the shared service trusts: behind one, no caller is on this machine. */
const development = { ...service.env, NODE_ENV: 'development', TRUST_PROXY: '' };
const { url: demoUrl } = await startApiProcess({ ...development, DEMO: '1' });
const operator = new Operator(service.url);
const run = promisify(execFile);
const browser = await startBrowser();
const inBrowser = browser ? describe : describe.skip;
const page = async (url: string, accept = 'text/html') => {
  const response = await fetch(url, { headers: { accept } });
  return { status: response.status, type: response.headers.get('content-type'), text: await response.text() };
};

test('the page of an error code says what it means and what to do; a problem document by Accept', async () => {
  const refused = await operator.call('GET', '/admin/campaigns/none');
  const code = String(new URL(refused.body.type).pathname);
  expect(code).toBe('/errors/campaign_not_found');
  const shown = await page(service.url + code);
  expect([shown.status, shown.type]).toEqual([200, 'text/html; charset=utf-8']);
  expect(shown.text).toContain('There is no such campaign.');
  expect(shown.text).toContain('<code>POST /flash-sale/checkout</code>');
  expect(shown.text).toContain('There is no such sale. Check the address.');
  expect(shown.text).toContain('&quot;code&quot;: &quot;campaign_not_found&quot;');
  expect(shown.text).toContain('A draft is not public until it is published.');
  expect(shown.text).toContain('<a href="/errors/campaign_not_started">');
  const { status, title, remedy } = ERRORS.campaign_not_found;
  for (const accept of ['application/problem+json', 'application/json', '*/*']) {
    const json = await page(service.url + code, accept);
    expect([json.status, json.type]).toEqual([200, 'application/problem+json']);
    expect(problemSchema.parse(JSON.parse(json.text))).toMatchObject({
      ...{ type: refused.body.type, title, status, code: 'campaign_not_found' },
      ...{ detail: remedy, instance: '/errors/campaign_not_found' },
    });
  }
  const list = await page(`${service.url}/errors`);
  for (const each of ERROR_CODES) {
    expect(list.text).toContain(`href="/errors/${each}"`);
    expect([each, (await page(`${service.url}/errors/${each}`)).text.includes('<dt>Retry</dt>')]).toEqual([each, true]);
  }
  expect(list.text).not.toContain('`');
  const unknown = await page(`${service.url}/errors/none`);
  expect([unknown.status, unknown.type]).toEqual([404, 'text/html; charset=utf-8']);
  expect(unknown.text).toContain('There is no such error code');
  expect(unknown.text).toContain('href="/errors"');
  for (const accept of ['application/problem+json', 'application/json', '*/*']) {
    const json = await page(`${service.url}/errors/none`, accept);
    expect([json.status, json.type, JSON.parse(json.text).code]).toEqual([
      404,
      'application/problem+json',
      'not_found',
    ]);
  }
});

test('the landing page leads to sales, operators and documents in development, and shows no key without DEMO', async () => {
  const name = 'Tea & <b>biscuits</b>';
  const product = await operator.openCampaign({ name });
  const { url, process: api } = await startApiProcess(development);
  const landing = await page(`${url}/`);
  expect(landing.status).toBe(200);
  expect(landing.text).toContain(`<a href="/sale/${product}">Tea &amp; &lt;b&gt;biscuits&lt;/b&gt;</a> (open)`);
  const links = [...landing.text.matchAll(/href="([^"]+)"/g)].map(([, path]) => String(path));
  expect(links).toEqual(expect.arrayContaining(['/admin', '/docs', '/openapi.json', '/errors', '/readyz']));
  for (const path of new Set(links))
    expect([path, path.startsWith('data:') ? 200 : (await fetch(url + path)).status]).toEqual([path, 200]);
  await api.stop();

  const plain = await page(`${service.url}/`);
  expect([plain.status, plain.type]).toEqual([200, 'text/html; charset=utf-8']);
  expect(plain.text).toContain('Open the link that the shop sent to you.');
  expect(plain.text).not.toMatch(/doorbuster|\/admin|\/docs|secrets\.json/i);
  for (const { text } of [landing, plain]) {
    for (const secret of [ADMIN_SECRET, SERVICE_SECRET]) expect(text).not.toContain(secret);
  }
});

/** Sends a request without the headers that `fetch` sets by itself. */
function landingOf(url: string, headers: Record<string, string>): Promise<string> {
  return new Promise((resolve, reject) => {
    request(url, { headers }, (response) => {
      response.setEncoding('utf8');
      let text = '';
      response.on('data', (chunk) => (text += chunk));
      response.on('end', () => resolve(text));
    })
      .on('error', reject)
      .end();
  });
}

test('the landing page shows the keys with DEMO, to callers on this machine alone', async () => {
  const { port } = new URL(demoUrl);
  const shown = async (headers: Record<string, string>) => {
    const text = await landingOf(demoUrl, headers);
    expect(text).toContain('Doorbuster is running');
    const keys = [ADMIN_SECRET, SERVICE_SECRET].filter((secret) => text.includes(secret));
    expect([0, 2]).toContain(keys.length);
    return keys.length === 2;
  };
  // A gateway between the test and the API is a proxy.
  const isDirect = process.env.DOORBUSTER_TEST_GATEWAY === undefined;
  for (const host of [`127.0.0.1:${port}`, `localhost:${port}`, 'LOCALHOST'])
    expect([host, await shown({ host })]).toEqual([host, isDirect]);
  for (const host of ['rebound.example', `localhost.example:${port}`, '127.0.0.1.example', '10.0.0.1', `[::1]:${port}`])
    expect([host, await shown({ host })]).toEqual([host, false]);
  for (const name of ['Via', 'Forwarded', 'X-Forwarded-For', 'X-Forwarded-Host', 'X-Real-IP'])
    expect([name, await shown({ host: 'localhost', [name]: '127.0.0.1' })]).toEqual([name, false]);

  const networks = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  const outside = networks.find(({ family, internal }) => family === 'IPv4' && !internal);
  const elsewhere = outside ? [{ DEMO: '1', HOST: outside.address }] : [];
  for (const changed of [{ DEMO: '0' }, { DEMO: '1', TRUST_PROXY: '1' }, ...elsewhere]) {
    const other = await startApiProcess({ ...development, ...changed });
    expect([changed, (await landingOf(other.url, { host: 'localhost' })).includes(ADMIN_SECRET)]).toEqual([
      changed,
      false,
    ]);
    await other.process.stop();
  }
});

test('the commands of the landing page buy a unit and report its payment', async () => {
  const product = await operator.openCampaign({ total_limit: 1, hold_seconds: 900 });
  await operator.openCampaign({ code: 'NEWER20', total_limit: 5 });
  const soldOut = await operator.openCampaign({ total_limit: 1, hold_seconds: 0 });
  await new Shopper(service.url, soldOut).checkout();
  await operator.openCampaign({ product_id: `load-spike-${Date.now()}`, total_limit: 5 });
  const text = await landingOf(demoUrl, { host: new URL(demoUrl).host });
  const [, session = ''] = /<pre id="session"[^>]*>(.*?)<\/pre>/s.exec(text) ?? [];
  const commands = session.replace(/&(quot|#39|#123|lt|gt|amp);/g, (_, name: string) => ENTITIES[name] ?? '');
  expect(commands).toContain(`product='${product}'`);
  // Behind a gateway the page has no key.
  const env = { ...process.env, service_key: SERVICE_SECRET };
  const paste = () => run('bash', ['-c', commands.replace('service_key="the service key"', '')], { env });
  expect((await paste()).stdout).toContain('"status":"redeemed"');
  expect(await operator.stats(product)).toMatchObject({ free: 0, redeemed: 1 });
  const refused = await paste().catch((error: { stdout: string; stderr: string }) => error);
  expect(refused.stderr).toMatch(/^There is no reservation_id in \{.*"code":"sold_out".*\}\n$/);
  expect(refused.stdout).toBe('');
});

test('the commands that `npm start` prints buy a unit and redeem a coupon, and print a refusal', async () => {
  await createDemoCampaigns(service.url, ADMIN_SECRET);
  const { hostname: host, port } = new URL(service.url);
  const shown = welcome({
    settings: { host, port: Number(port), opsPort: undefined, withDemo: true, dataDir: '.data' } as Settings,
    keys: { ADMIN_API_KEYS: `a:${ADMIN_SECRET}`, SERVICE_API_KEYS: `s:${SERVICE_SECRET}` } as Keys,
    ...{ keysAreOurs: true, redisUrl: '', postgresUrl: '', logs: '' },
  });
  const commands = shown.slice(shown.indexOf('api='), shown.indexOf('Ctrl-C'));
  const paste = () => run('sh', ['-c', commands]);
  const statuses = /"status":"(\w+)"/g;
  const bought = await paste();
  expect(Array.from(bought.stdout.matchAll(statuses), ([, status]) => status)).toEqual([
    'completed',
    'completed',
    'redeemed',
    'redeemed',
  ]);
  expect(bought.stderr).toBe('');
  await operator.call('POST', `/admin/campaigns/${DEMO_CAMPAIGN.product_id}/pause`);
  const refused = await paste();
  expect(refused.stderr).toMatch(/^There is no ticket in \{.*"code":"campaign_paused".*\}\n$/);
  expect(refused.stdout).toContain('"discount"');
});

inBrowser('in a browser', () => {
  test('the pages are accessible in light and dark, fit a phone, and copy the commands', async () => {
    for (const colorScheme of ['light', 'dark'] as const) {
      const { context, page, faults } = await openPhone(browser!, { colorScheme });
      for (const path of ['/', '/errors', '/errors/sold_out', '/errors/not_found']) {
        await page.goto(demoUrl + path);
        expect([path, await accessibilityFindings(page)]).toEqual([path, []]);
        expect([path, await page.evaluate('document.documentElement.scrollWidth')]).toEqual([path, 320]);
      }
      await context.grantPermissions(['clipboard-read', 'clipboard-write']);
      await page.goto(`${demoUrl}/errors/sold_out`);
      await page.getByRole('button', { name: 'Copy' }).click();
      await until('it is copied', async () => (await page.locator('.copy').textContent()) === 'Copied');
      expect(await page.evaluate('navigator.clipboard.readText()')).toContain('"code": "sold_out"');
      expect(faults).toEqual([]);
      await context.close();
    }
  });
});

const ENTITIES: Record<string, string> = { quot: '"', '#39': "'", '#123': '{', lt: '<', gt: '>', amp: '&' };
