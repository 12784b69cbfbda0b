// P2. How many checkouts a second are accepted, with the generator on the same machine?
//
// Method: rounds of checkouts, each by a user of his own and each taking a unit, over 128 keep-alive connections, in turn with the
// naive server (reference/naive.mjs: Express, one Postgres transaction with SELECT … FOR UPDATE on the campaign's row). Throughput
// and latency are medians of the rounds, as the generator sees them; so is the CPU that each of our processes spent on a checkout, which says
// how to size a sale. Goal: at least 3 × the best peer; the naive one stands in for it here.
// Last record (2026-11-21, 4c44a10, load 1.5): accepted_per_second 6115, p50_ms 19.6, p99_ms 40.6, cpu_us {"api":86.2,"redis":70.4,"worker":67.9,"postgres":69.7}, naive_per_second 963, ratio 6.3
import { fileURLToPath } from 'node:url';
import { Redis } from 'ioredis';
import { checkoutRequest, drive, operator } from './load.mjs';
import { cpuMicros, cpuMicrosWithChildren, median, quantile, round } from './measure.mjs';

const ROUNDS = 5;
const CHECKOUTS = 5_000;
const NAIVE_CHECKOUTS = 1_000;

/** @param {import('./stage.mjs').Stage} stage @param {(text: string) => void} say */
export async function run(stage, say) {
  const naive = await stage.start('naive', [fileURLToPath(new URL('reference/naive.mjs', import.meta.url))]);
  const product = `p2-${Date.now()}`;
  await operator(stage.api.url, 'POST', '/admin/campaigns', {
    product_id: product,
    total_limit: 10_000_000,
    hold_seconds: 900,
  });
  let user = 0;
  const go = async (part, count) => {
    const requests = Array.from({ length: count }, () =>
      checkoutRequest(product, `u${++user}`, `key-${product}-${user}`),
    );
    const outcome = await drive(part.url, requests, { connections: 128 });
    if (outcome.replies.get(200) !== count)
      throw new Error(`not all were served: ${JSON.stringify([...outcome.replies])}`);
    return {
      perSecond: (count / outcome.ms) * 1000,
      p50: quantile(outcome.latencies, 0.5),
      p99: quantile(outcome.latencies, 0.99),
    };
  };
  const spent = () => ({
    api: cpuMicros(stage.api.pid),
    redis: cpuMicros(stage.redisPid),
    worker: cpuMicros(stage.worker.pid),
    postgres: cpuMicrosWithChildren(stage.postgresPid),
  });
  await go(stage.api, CHECKOUTS);
  const [api, reference] = [[], []];
  const cpu = { api: [], redis: [], worker: [], postgres: [] };
  for (let i = 0; i < ROUNDS; i += 1) {
    const before = spent();
    api.push(await go(stage.api, CHECKOUTS));
    await allWritten(stage);
    const after = spent();
    for (const [part, micros] of Object.entries(cpu)) micros.push((after[part] - before[part]) / CHECKOUTS);
    reference.push(await go(naive, NAIVE_CHECKOUTS));
    say(`round ${i + 1}: ${Math.round(api.at(-1).perSecond)}/s, naive ${Math.round(reference.at(-1).perSecond)}/s`);
  }
  const mid = (rounds, key) => median(rounds.map((one) => one[key]));
  return {
    accepted_per_second: Math.round(mid(api, 'perSecond')),
    p50_ms: round(mid(api, 'p50')),
    p99_ms: round(mid(api, 'p99')),
    cpu_us: Object.fromEntries(Object.entries(cpu).map(([part, micros]) => [part, round(median(micros))])),
    naive_per_second: Math.round(mid(reference, 'perSecond')),
    ratio: round(mid(api, 'perSecond') / mid(reference, 'perSecond')),
    goal: '≥ 3 × the best peer',
  };
}

/** Until the journal is empty: what a checkout costs later belongs to it. @param {import('./stage.mjs').Stage} stage */
async function allWritten(stage) {
  const redis = new Redis(stage.redisUrl);
  while ((await redis.xlen('db1:journal')) > 0) await new Promise((resolve) => setTimeout(resolve, 20));
  redis.disconnect();
}
