// Floods. How long do shoppers wait while one address floods the API?
//
// Method: a shopper presses every 25 ms, from one address, whether the last press has a response or not. Another
// address floods with thousands of connections that have eight requests each on their way. Each flood is measured in
// three parts that follow each other: quiet, the same flood against a bare `node:http` server beside the API (the
// control: what the flood takes from the machine), and the flood against the API. The generator and all servers share
// the cores. Goal: in each flood p99 is at most twice that of the control, or three times quiet, and the API needs at
// most 1.5 times the memory that it needed before the floods.
// Last record (2026-11-30, 5c7b8dd3 with changes, load 1.3): rss_mb 168, floods {"status 400":{"quiet_ms":"2.8 / 9.3","control_ms":"3.5 / 12.8","flooded_ms":"3 / 14.8","rss_mb":197},"status 5,000":{"quiet_ms":"2.2 / 8.6","control_ms":"2.6 / 12.7","flooded_ms":"2.6 / 12.6","rss_mb":252},"livez 3,000":{"quiet_ms":"2.5 / 20.3","control_ms":"2.6 / 12.8","flooded_ms":"2.7 / 17.4","rss_mb":237},"checkout without a token 1,500":{"quiet_ms":"2.3 / 18.4","control_ms":"2.7 / 16","flooded_ms":"2.7 / 21.2","rss_mb":237},"validate 1,000":{"quiet_ms":"1.8 / 4.8","control_ms":"2.6 / 15.5","flooded_ms":"2.9 / 12.7","rss_mb":228}}, met true
import { fork } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { Agent, request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { operator, tokenOf } from './load.mjs';
import { quantile, residentBytes, round } from './measure.mjs';

const EVERY_MS = 25;
const QUIET_MS = 6_000;
const FLOOD_MS = 15_000;
/** Time for the connections of a flood to be accepted, and for what a flood left to be served. */
const SETTLE_MS = 3_000;
const LOOK_EVERY_MS = 250;
/** Of the memory before the floods. */
const MEMORY_SHARE = 1.5;
const UNITS = 1_000_000;
const CODES = 10;

const here = (/** @type {string} */ name) => fileURLToPath(new URL(name, import.meta.url));

/** @typedef {import('./flooder.mjs').Flood} Flood */
/**
 * @param {string} product
 * @param {readonly string[]} codes
 * @returns {(Omit<Flood, 'url'> & { name: string })[]}
 */
const floodsOf = (product, codes) => [
  { name: 'status 400', ...status(product), connections: 400, pipelined: 8 },
  { name: 'status 5,000', ...status(product), connections: 5_000, pipelined: 8 },
  { name: 'livez 3,000', method: 'GET', path: '/livez', connections: 3_000, pipelined: 8 },
  {
    name: 'checkout without a token 1,500',
    method: 'POST',
    path: '/flash-sale/checkout',
    json: { product_id: product, user_id: 'flood', qty: 1, idempotency_key: 'flood-flood' },
    connections: 1_500,
    pipelined: 8,
  },
  {
    name: 'validate 1,000',
    method: 'POST',
    path: '/coupons/validate',
    json: { codes, user_id: 'flood', cart: { subtotal: 250_000, currency: 'IDR' } },
    connections: 1_000,
    pipelined: 8,
  },
];

const status = (/** @type {string} */ product) => ({
  method: 'GET',
  path: `/flash-sale/queue-status?product_id=${product}&user_id=flood`,
});

/** @param {import('./environment.mjs').Environment} environment @param {(text: string) => void} say */
export async function run(environment, say) {
  const { url, pid } = environment.api;
  const product = `floods-${Date.now()}`;
  await operator(url, 'POST', '/admin/campaigns', { product_id: product, total_limit: UNITS, hold_seconds: 0 });
  const codes = Array.from({ length: CODES }, (_, i) => `FLOOD${Date.now()}${i}`);
  for (const code of codes)
    await operator(url, 'POST', '/admin/campaigns', { product_id: code, code, total_limit: UNITS });
  const bare = fork(here('reference/bare-server.mjs'));
  const [bareUrl] = await once(bare, 'message');
  const shopper = new Shopper(url, product);
  await shopper.during(QUIET_MS);
  const quietMb = megabytesOf(pid);
  /** @type {Record<string, Record<string, unknown>>} */
  const floods = {};
  let met = true;
  try {
    for (const { name, ...flood } of floodsOf(product, codes)) {
      const quiet = await shopper.during(QUIET_MS);
      const control = await under({ ...flood, url: bareUrl }, shopper);
      let rss = 0;
      const looks = setInterval(() => {
        rss = Math.max(rss, megabytesOf(pid));
      }, LOOK_EVERY_MS);
      const flooded = await under({ ...flood, url }, shopper).finally(() => clearInterval(looks));
      floods[name] = {
        quiet_ms: quiet.figures(),
        control_ms: control.press.figures(),
        flooded_ms: flooded.press.figures(),
        rss_mb: rss,
      };
      met &&= flooded.press.p99 <= Math.max(2 * control.press.p99, 3 * quiet.p99) && rss <= MEMORY_SHARE * quietMb;
      say(
        `${name}: p50/p99 quiet ${quiet.figures()}, control ${control.press.figures()}, flooded ${flooded.press.figures()} ms; responses a second: ${perSecond(flooded.statuses)}, of the control ${perSecond(control.statuses)}; ${rss} MB`,
      );
    }
  } finally {
    shopper.end();
    bare.disconnect();
  }
  const goal = 'in each flood p99 ≤ 2 × the control or 3 × quiet, and at most 1.5 × the memory before';
  return { rss_mb: quietMb, floods, goal, met };
}

/** Resident memory. @param {number} pid */
const megabytesOf = (pid) => Math.round(residentBytes(pid) / 1e6);

/**
 * @param {Flood} flood
 * @param {Shopper} shopper
 */
async function under(flood, shopper) {
  const flooder = fork(here('flooder.mjs'));
  flooder.send(flood);
  await shopper.during(SETTLE_MS);
  const press = await shopper.during(FLOOD_MS);
  flooder.send('stop');
  const [statuses] = await once(flooder, 'message');
  await shopper.during(SETTLE_MS);
  return { press, statuses: /** @type {Record<string, number>} */ (statuses) };
}

/** @param {Record<string, number>} statuses */
const perSecond = (statuses) =>
  JSON.stringify(
    Object.fromEntries(
      Object.entries(statuses).map(([status, n]) => [status, Math.round((n * 1000) / (FLOOD_MS + SETTLE_MS))]),
    ),
  );

/** How long presses took, ms. */
class Presses {
  /** @type {number[]} */
  latencies = [];
  failed = 0;

  get p99() {
    return quantile(this.latencies, 0.99);
  }

  figures() {
    const failed = this.failed > 0 ? `, ${this.failed} failed` : '';
    return `${round(quantile(this.latencies, 0.5))} / ${round(this.p99)}${failed}`;
  }
}

/** Someone who presses at a steady pace, over connections that stay open. */
class Shopper {
  #agent = new Agent({ keepAlive: true });

  /** @param {string} url @param {string} product */
  constructor(url, product) {
    this.url = url;
    this.product = product;
  }

  /** Presses for a time. @param {number} ms */
  async during(ms) {
    const presses = new Presses();
    const endsAt = performance.now() + ms;
    /** @type {Promise<void>[]} */
    const all = [];
    for (let due = performance.now(); due < endsAt; due += EVERY_MS) {
      await sleep(Math.max(0, due - performance.now()));
      all.push(this.#press(presses));
    }
    await Promise.all(all);
    return presses;
  }

  end() {
    this.#agent.destroy();
  }

  /** @param {Presses} presses */
  async #press(presses) {
    const user = `u-${randomUUID()}`;
    const body = JSON.stringify({ product_id: this.product, user_id: user, qty: 1, ...tokenOf(`fp-${user}`) });
    const began = performance.now();
    const sent = request(`${this.url}/flash-sale/checkout`, {
      method: 'POST',
      agent: this.#agent,
      headers: { 'content-type': 'application/json', 'idempotency-key': user },
    });
    sent.end(body);
    try {
      const [response] = await once(sent, 'response');
      response.resume();
      await once(response, 'end');
      if (response.statusCode !== 200) presses.failed += 1;
    } catch {
      presses.failed += 1;
    }
    presses.latencies.push(performance.now() - began);
  }
}
