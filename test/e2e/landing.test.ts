import { request } from 'node:http';
import { networkInterfaces } from 'node:os';
import { expect, test } from '@jest/globals';
import { problemSchema } from '../../api/http/problem-schema.js';
import { ERROR_CODES, ERRORS } from '../../shared/errors/catalogue.js';
import { Operator, send } from '../harness/clients.js';
import { ADMIN_SECRET, SERVICE_SECRET, startApiProcess, startService } from '../harness/service.js';

const service = await startService();
const operator = new Operator(service.url);
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
    expect([each, (await page(`${service.url}/errors/${each}`)).text.includes('<th scope="row">Retry</th>')]).toEqual([
      each,
      true,
    ]);
  }
  expect(list.text).not.toContain('`');
  expect((await send(`${service.url}/errors/none`)).body.code).toBe('not_found');
});

test('the landing page leads to sales, operators and documents in development, and shows no key without DEMO', async () => {
  const name = 'Tea & <b>biscuits</b>';
  const product = await operator.openCampaign({ name });
  const { url, process: api } = await startApiProcess({ ...service.env, NODE_ENV: 'development' });
  const landing = await page(`${url}/`);
  expect(landing.status).toBe(200);
  expect(landing.text).toContain(`<a href="/sale/${product}">Tea &amp; &lt;b&gt;biscuits&lt;/b&gt;</a> (open)`);
  const links = [...landing.text.matchAll(/href="([^"]+)"/g)].map(([, path]) => String(path));
  expect(links).toEqual(expect.arrayContaining(['/admin', '/docs', '/openapi.json', '/errors', '/readyz']));
  for (const path of new Set(links)) expect([path, (await fetch(url + path)).status]).toEqual([path, 200]);
  await api.stop();

  const plain = await page(`${service.url}/`);
  expect([plain.status, plain.type]).toEqual([200, 'text/html; charset=utf-8']);
  expect(plain.text).toContain('href="/docs"');
  expect(plain.text).not.toMatch(/\/admin|\/sale|secrets\.json/);
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
  const development = { ...service.env, NODE_ENV: 'development' };
  const { url, process: api } = await startApiProcess({ ...development, DEMO: '1' });
  const { port } = new URL(url);
  const shown = async (headers: Record<string, string>) => {
    const text = await landingOf(url, headers);
    expect(text).toContain('Doorbuster runs here');
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
  await api.stop();

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
