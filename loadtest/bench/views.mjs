// Views. What does a view of the page of a sale cost the API before the opening, with and without a cache in front?
//
// Method: a sale that opens tomorrow. A view is the page and the public data of the sale, as a visitor requests them
// who has the files of the page. 64 keep-alive connections make 4,000 views a round, in rounds. CPU of the API and
// Redis over the views, medians of the rounds. With a cache: the same through nginx with deploy/nginx/nginx.conf,
// without the limits of a network; `cached_requests` is the number of requests that reach the API in a second of that,
// whatever the number of views. The generator does not sleep, because the kernel would charge the server for waking it.
// Last record (2026-11-25, 0962af2 with changes, load 0.9): api_us 139, redis_us 6.7, cached_views_per_second 25744, cached_requests 1.2, cached_api_us 0.5
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findNginx, localConfiguration } from '../../scripts/engines/nginx.mjs';
import { requestBytes } from '../http-client.mjs';
import { drive, operator } from './load.mjs';
import { cpuOf, cpuSince, median, round } from './measure.mjs';

const ROUNDS = 7;
const VIEWS = 4_000;
const CACHED_SECONDS = 5;
const DAY_MS = 86_400_000;

/** @param {import('./environment.mjs').Environment} environment @param {(text: string) => void} say */
export async function run(environment, say) {
  const product = `views-${Date.now()}`;
  await operator(environment.api.url, 'POST', '/admin/campaigns', {
    product_id: product,
    total_limit: 1_000,
    starts_at: new Date(Date.now() + DAY_MS).toISOString(),
  });
  const view = [
    requestBytes('GET', `/sale/${product}?lang=en`, ['Accept-Encoding: gzip']),
    requestBytes('GET', `/flash-sale/campaign?product_id=${product}`, ['Accept-Encoding: gzip']),
  ];
  const views = Array.from({ length: VIEWS }, () => view).flat();
  /** @type {[number[], number[]]} */
  const [api, redis] = [[], []];
  for (let i = -1; i < ROUNDS; i += 1) {
    const before = cpuOf(environment);
    const { replies } = await drive(environment.api.url, views, { awake: true });
    if (replies.get(200) !== views.length) throw new Error(`not all were served: ${JSON.stringify([...replies])}`);
    const cpu = cpuSince(environment, before, VIEWS);
    // The first round warms up.
    if (i < 0) continue;
    api.push(cpu.api);
    redis.push(cpu.redis);
    say(`round ${i + 1}: API ${round(cpu.api)} µs, Redis ${round(cpu.redis)} µs a view`);
  }
  const uncached = { api_us: round(median(api)), redis_us: round(median(redis)) };
  return { ...uncached, ...(await throughCache(environment, views, say)) };
}

/**
 * @param {import('./environment.mjs').Environment} environment
 * @param {readonly Buffer[]} views
 * @param {(text: string) => void} say
 */
async function throughCache(environment, views, say) {
  const found = await findNginx();
  if ('missing' in found) {
    say(`The cache is not measured: ${found.missing}.`);
    return {};
  }
  const folder = mkdtempSync(join(tmpdir(), 'doorbuster-nginx-'));
  const port = await freePort();
  const read = new URL(environment.api.url).host;
  writeFileSync(join(folder, 'nginx.conf'), localConfiguration({ folder, port, read, limitless: true }));
  const nginx = spawn(found.path, ['-p', folder, '-c', join(folder, 'nginx.conf'), '-g', 'daemon off;'], {
    stdio: 'ignore',
  });
  try {
    const url = `http://127.0.0.1:${port}`;
    await answers(url);
    const [requests, cpu, began] = [await requestsOf(environment), cpuOf(environment), performance.now()];
    let served = 0;
    while (performance.now() - began < CACHED_SECONDS * 1_000) {
      const { replies } = await drive(url, views, { awake: true });
      if (replies.get(200) !== views.length) throw new Error(`not all were served: ${JSON.stringify([...replies])}`);
      served += views.length / 2;
    }
    const seconds = (performance.now() - began) / 1_000;
    const { api } = cpuSince(environment, cpu, served);
    const reached = (await requestsOf(environment)) - requests - 1;
    say(
      `with a cache: ${Math.round(served / seconds)} views a second, ${round(reached / seconds)} requests a second reach the API`,
    );
    return {
      cached_views_per_second: Math.round(served / seconds),
      cached_requests: round(reached / seconds),
      cached_api_us: round(api),
    };
  } finally {
    nginx.kill('SIGTERM');
    await once(nginx, 'exit');
    rmSync(folder, { recursive: true, force: true });
  }
}

/**
 * @param {import('./environment.mjs').Environment} environment
 * @returns {Promise<number>} requests that the API has served
 */
async function requestsOf({ api }) {
  const text = await (await fetch(`${api.url}/metrics`)).text();
  const lines = text.match(/^doorbuster_http_requests_total\{.*\} \d+$/gm) ?? [];
  return lines.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
}

/** @param {string} url */
async function answers(url) {
  for (let tries = 0; tries < 100; tries += 1) {
    if (
      await fetch(`${url}/assets/none.js`).then(
        () => true,
        () => false,
      )
    )
      return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error('nginx does not respond');
}

/** @returns {Promise<number>} */
async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  server.close();
  return port;
}
