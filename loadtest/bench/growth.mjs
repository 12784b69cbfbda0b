// Does a checkout cost more in a campaign with many reservations and waiting users?
//
// Method: CPU of API and Redis per checkout on a campaign with 1,000 reservations and 1,000 waiting, and on one with
// 300,000 of each (the goal names a million; making them takes most of the time, so the figures include the number), in
// turn. Goal: ≤ 1.15 ×.
// Last record (2026-11-23, 500719d, load 0.4): many 300000, api_us [80.8,91.7], redis_us [49.9,49.5], ratio 1.14, met true
import { checkoutRequest, drive, operator } from './load.mjs';
import { cpuMicros, median, round } from './measure.mjs';

const MANY = Number(process.env.BENCH_MANY ?? 300_000);
const FEW = 1_000;
const ROUNDS = 5;
const CHECKOUTS = 3_000;

export const extraEnv = { JOURNAL_LIMIT: '5000000' };

/** @param {import('./environment.mjs').Environment} environment @param {(text: string) => void} say */
export async function run(environment, say) {
  let user = 0;
  const fill = async (/** @type {string} */ product, /** @type {number} */ units) => {
    await operator(environment.api.url, 'POST', '/admin/campaigns', {
      product_id: product,
      total_limit: units,
      hold_seconds: 86_400,
      waiting_room: { enabled: true, max_size: 10_000_000 },
    });
    for (let left = 2 * units; left > 0; left -= 10_000) {
      const requests = Array.from({ length: Math.min(left, 10_000) }, () =>
        checkoutRequest(product, `u${++user}`, `key-${product}-${user}`),
      );
      await drive(environment.api.url, requests);
      if (left % 100_000 === 0) say(`${product}: ${left} to go`);
    }
  };
  const [few, many] = [`growth-few-${Date.now()}`, `growth-many-${Date.now()}`];
  await fill(few, FEW);
  await fill(many, MANY);
  /** @type {Record<'few' | 'many' | 'redisFew' | 'redisMany', number[]>} */
  const cost = { few: [], many: [], redisFew: [], redisMany: [] };
  /** @param {string} product @param {number[]} api @param {number[]} redis */
  const measure = async (product, api, redis) => {
    const requests = Array.from({ length: CHECKOUTS }, () =>
      checkoutRequest(product, `u${++user}`, `key-${product}-${user}`),
    );
    const [a, r] = [cpuMicros(environment.api.pid), cpuMicros(environment.redisPid)];
    await drive(environment.api.url, requests);
    api.push((cpuMicros(environment.api.pid) - a) / CHECKOUTS);
    redis.push((cpuMicros(environment.redisPid) - r) / CHECKOUTS);
  };
  for (let i = 0; i < ROUNDS; i += 1) {
    await measure(few, cost.few, cost.redisFew);
    await measure(many, cost.many, cost.redisMany);
  }
  return {
    many: MANY,
    api_us: [round(median(cost.few)), round(median(cost.many))],
    redis_us: [round(median(cost.redisFew)), round(median(cost.redisMany))],
    ratio: round(median(cost.many) / median(cost.few), 2),
    goal: '≤ 1.15',
    met: median(cost.many) / median(cost.few) <= 1.15,
  };
}
