import { get as httpGet, type IncomingHttpHeaders } from 'node:http';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { describe, expect, test } from '@jest/globals';
import { Operator, send } from '../harness/clients.js';
import { freePort } from '../harness/free-port.js';
import { metricsText } from '../harness/metrics.js';
import { itBehindNginx, startNginx } from '../harness/nginx.js';
import { sharedService } from '../harness/service.js';

const service = await sharedService();
const operator = new Operator(service.url);

type Raw = { status: number; headers: IncomingHttpHeaders; body: Buffer };

/** Without the decompression of `fetch`. */
const getRaw = (url: string, headers: Record<string, string> = {}) =>
  new Promise<Raw>((resolve, reject) => {
    httpGet(url, { headers }, async (response) => {
      const parts: Buffer[] = [];
      for await (const part of response) parts.push(part as Buffer);
      resolve({ status: Number(response.statusCode), headers: response.headers, body: Buffer.concat(parts) });
    }).on('error', reject);
  });

async function filesOf(url: string, product: string): Promise<string[]> {
  const page = await send(`${url}/sale/${product}`);
  return [...page.text.matchAll(/(?:src|href)="(\/assets\/[^"]+)"/g)].map(([, path]) => String(path));
}

test('the files of a page are cached for a year, in the smallest form that the browser accepts', async () => {
  const files = await filesOf(service.url, await operator.openCampaign({ total_limit: 1 }));
  expect(files.length).toBeGreaterThanOrEqual(2);
  for (const path of files) {
    const plain = await getRaw(service.url + path);
    const zipped = await getRaw(service.url + path, { 'accept-encoding': 'gzip, deflate' });
    const brotli = await getRaw(service.url + path, { 'accept-encoding': 'gzip, deflate, br, zstd' });
    const unwanted = await getRaw(service.url + path, { 'accept-encoding': 'gzip, br;q=0' });
    for (const { status, headers } of [plain, zipped, brotli, unwanted]) {
      expect([path, status, headers['cache-control'], headers.vary]).toEqual([
        ...[path, 200, 'public, max-age=31536000, immutable', 'Accept-Encoding'],
      ]);
      expect(headers.etag).toBe(plain.headers.etag);
    }
    expect([plain, zipped, brotli, unwanted].map(({ headers }) => headers['content-encoding'])).toEqual([
      ...[undefined, 'gzip', 'br', 'gzip'],
    ]);
    expect(gunzipSync(zipped.body)).toEqual(plain.body);
    expect(brotliDecompressSync(brotli.body)).toEqual(plain.body);
    expect(brotli.body.length).toBeLessThan(zipped.body.length);
  }
});

test('the page of a sale that does not exist is sent without compressing it, with the id that was asked for', async () => {
  for (const id of ['no-such-sale', 'nor-this']) {
    const page = await getRaw(`${service.url}/sale/${id}`, { 'accept-encoding': 'gzip, br' });
    expect([page.status, page.headers['content-encoding']]).toEqual([404, undefined]);
    expect(String(page.body)).toContain(`<h1 id="name" dir="auto">${id}</h1>`);
    expect(String(page.body)).not.toContain('\ue000');
  }
  const invalid = await getRaw(`${service.url}/sale/${encodeURIComponent('no id')}`);
  expect(String(invalid.body)).not.toMatch(/no id|\ue000/);
});

describe('a cache in front of the API', () => {
  itBehindNginx('shows a page that tries again while no API answers, and no page to callers of data', async () => {
    const { url } = await startNginx({ read: `http://127.0.0.1:${await freePort()}` });
    const page = await send(`${url}/sale/any`);
    expect([page.status, page.headers.get('content-type')]).toEqual([502, 'text/html']);
    expect([page.headers.get('retry-after'), page.headers.get('cache-control')]).toEqual(['10', 'no-store']);
    expect(page.text).toContain('Your place and your reservation are kept.');
    const data = await send(`${url}/flash-sale/campaign?product_id=any`);
    expect(data.status).toBe(502);
    expect(data.text).not.toContain('Your place');
    expect((await send(`${url}/busy.html`)).status).toBe(404);
  });

  const reachedApi = async (route: string) => {
    const text = await metricsText(service.url);
    const lines = text
      .split('\n')
      .filter((one) => one.startsWith('doorbuster_http_requests_total{') && one.includes(route));
    return lines.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
  };

  itBehindNginx(
    'asks the API once a second for the page and its data, and never keeps what is of a shopper',
    async () => {
      const { url } = await startNginx({ read: service.url });
      const product = await operator.openCampaign({
        total_limit: 1,
        starts_at: new Date(Date.now() + 60_000).toISOString(),
      });
      const [page, data] = [`${url}/sale/${product}?lang=en`, `${url}/flash-sale/campaign?product_id=${product}`];
      /** A view with headers and a query that no other view has. */
      const view = (i: number) =>
        getRaw(`${i % 2 === 0 ? page : data}&x=${i}`, {
          'accept-encoding': `gzip;q=0.${i}, br`,
          'accept-language': `xx-${i}, zh;q=0.5`,
          origin: `https://${i}.example`,
        });
      const before = [await reachedApi('/sale/:product_id'), await reachedApi('/flash-sale/campaign')];
      const began = performance.now();
      let views = 0;
      while (views < 600) {
        const answers = await Promise.all(Array.from({ length: 40 }, (_, i) => view(views + i)));
        expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
        views += answers.length;
      }
      const most = 3 + Math.ceil((performance.now() - began) / 1_000);
      const after = [await reachedApi('/sale/:product_id'), await reachedApi('/flash-sale/campaign')];
      for (const [i, count] of after.entries()) expect(count - Number(before[i])).toBeLessThanOrEqual(most);

      const languages = await Promise.all(
        ['en', 'fr, zh-TW;q=0.5', 'fr'].map((one) => getRaw(`${url}/sale/${product}`, { 'accept-language': one })),
      );
      const asked = await getRaw(`${url}/sale/${product}?lang=id`, { 'accept-language': 'zh' });
      const named = [...languages, asked].map(({ body }) => /<html lang="(\w+)"/.exec(String(body))?.[1]);
      expect(named).toEqual(['en', 'zh', 'en', 'id']);
      const status = `${url}/flash-sale/queue-status?product_id=${product}&user_id=ann`;
      for (let i = 0; i < 2; i += 1) expect((await getRaw(status)).headers['x-cache']).toBeUndefined();
      for (const path of ['/admin', '/admin/campaigns', '/metrics', '/readyz'])
        expect((await getRaw(url + path)).status).toBe(404);
      expect((await send(`${url}/flash-sale/checkout`, { method: 'POST', json: {} })).status).toBe(400);
    },
  );
});
