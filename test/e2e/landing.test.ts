import { expect, test } from '@jest/globals';
import { ERROR_CODES, ERRORS } from '../../shared/errors/catalogue.js';
import { Operator, send } from '../harness/clients.js';
import { ADMIN_SECRET, SERVICE_SECRET, startApiProcess, startService } from '../harness/service.js';

const service = await startService();
const operator = new Operator(service.url);
const page = async (url: string, accept = 'text/html') => {
  const response = await fetch(url, { headers: { accept } });
  return { status: response.status, type: response.headers.get('content-type'), text: await response.text() };
};

test('the page of an error code says what it means and what to do; JSON by Accept', async () => {
  const refused = await operator.call('GET', '/admin/campaigns/none');
  const code = String(new URL(refused.body.type).pathname);
  expect(code).toBe('/errors/campaign_not_found');
  const shown = await page(service.url + code);
  expect([shown.status, shown.type]).toEqual([200, 'text/html; charset=utf-8']);
  expect(shown.text).toContain('There is no such campaign.');
  const json = await page(service.url + code, 'application/json');
  const { status, title, remedy } = ERRORS.campaign_not_found;
  expect([json.type, JSON.parse(json.text)]).toEqual([
    'application/json; charset=utf-8',
    { data: { code: 'campaign_not_found', type: refused.body.type, status, title, remedy } },
  ]);
  const list = await page(`${service.url}/errors`);
  for (const each of ERROR_CODES) expect(list.text).toContain(`href="/errors/${each}"`);
  expect(list.text).not.toContain('`');
  expect((await send(`${service.url}/errors/none`)).body.code).toBe('not_found');
});

test('the landing page leads to sales, operators and documents in development, and shows no key anywhere', async () => {
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
