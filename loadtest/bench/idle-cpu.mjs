// How much CPU do all processes spend while they get no requests?
//
// Method: one campaign is open and has sold 1,000 units, whose rows are written. After five seconds the CPU of each
// process is measured over 20 s, by the kernel's accounting. Goal: ≤ 20 ms a second in all.
// Last record (2026-11-23, 500719d, load 0.4): total_ms_per_second 50.7, api_ms_per_second 22.2, redis_ms_per_second 4.4, worker_ms_per_second 19, postgres_ms_per_second 5.2, met false
import { Redis } from 'ioredis';
import { untilWritten } from './engine.mjs';
import { checkoutRequest, drive, operator } from './load.mjs';
import { cpuOf, cpuSince, round } from './measure.mjs';

const SETTLE_MS = 5_000;
const WATCHED_MS = 20_000;

/** @param {import('./environment.mjs').Environment} environment */
export async function run(environment) {
  const product = `idle-cpu-${Date.now()}`;
  await operator(environment.api.url, 'POST', '/admin/campaigns', {
    product_id: product,
    total_limit: 10_000,
    hold_seconds: 900,
  });
  const requests = Array.from({ length: 1_000 }, (_, i) => checkoutRequest(product, `u${i}`, `key-${product}-${i}`));
  await drive(environment.api.url, requests);
  const redis = new Redis(environment.redisUrl, { replyMapping: 'legacy' });
  await untilWritten(redis);
  redis.disconnect();
  const pause = (/** @type {number} */ ms) => new Promise((resolve) => setTimeout(resolve, ms));
  await pause(SETTLE_MS);
  const before = cpuOf(environment);
  const began = performance.now();
  await pause(WATCHED_MS);
  const { total, ...parts } = cpuSince(environment, before, performance.now() - began);
  return {
    total_ms_per_second: round(total),
    ...Object.fromEntries(Object.entries(parts).map(([part, ms]) => [`${part}_ms_per_second`, round(ms)])),
    goal: '≤ 20 ms a second',
    met: total <= 20,
  };
}
