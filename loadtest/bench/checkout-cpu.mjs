// How much CPU do all processes together spend on a confirmed checkout?
//
// Method: rounds of checkouts over 128 keep-alive connections (BENCH_CONNECTIONS). Each checkout has its own user and
// device and takes a unit. A round ends when all its rows are committed and all its events are published. The result is
// the CPU, by the kernel's accounting, of the API, Redis, the worker, and Postgres with its backends, divided by the
// checkouts. It includes the work of idle processes (idle-cpu). Medians of the rounds. The generator runs on the same
// machine. Goal: ≤ 135 µs: API 55, Redis 32, worker 25, Postgres 22.
// Last record (2026-11-23, 500719d, load 0.4): connections 128, total_us 163.2, api_us 78, redis_us 40.9, worker_us 26.3, postgres_us 20.4, per_second 9103.3, p50_ms 13.3, p99_ms 28.9, met false
import { Redis } from 'ioredis';
import { untilPublished, untilWritten } from './engine.mjs';
import { checkoutRequest, drive, operator } from './load.mjs';
import { cpuOf, cpuSince, median, quantile, round } from './measure.mjs';

const ROUNDS = 5;
const CHECKOUTS = 10_000;
const CONNECTIONS = Number(process.env.BENCH_CONNECTIONS ?? 128);

/** @param {import('./environment.mjs').Environment} environment @param {(text: string) => void} say */
export async function run(environment, say) {
  const product = `checkout-cpu-${Date.now()}`;
  await operator(environment.api.url, 'POST', '/admin/campaigns', {
    product_id: product,
    total_limit: 10_000_000,
    hold_seconds: 900,
  });
  const redis = new Redis(environment.redisUrl, { replyMapping: 'legacy' });
  let user = 0;
  const go = async () => {
    const requests = Array.from({ length: CHECKOUTS }, () =>
      checkoutRequest(product, `u${++user}`, `key-${product}-${user}`),
    );
    const published = await untilPublished(redis);
    const before = cpuOf(environment);
    const { replies, ms, latencies } = await drive(environment.api.url, requests, { connections: CONNECTIONS });
    if (replies.get(200) !== CHECKOUTS) throw new Error(`not all were served: ${JSON.stringify([...replies])}`);
    await untilWritten(redis);
    await untilPublished(redis, published + CHECKOUTS);
    return {
      ...cpuSince(environment, before, CHECKOUTS),
      perSecond: (CHECKOUTS / ms) * 1000,
      p50: quantile(latencies, 0.5),
      p99: quantile(latencies, 0.99),
    };
  };
  await go();
  /** @type {Awaited<ReturnType<typeof go>>[]} */
  const rounds = [];
  for (let i = 0; i < ROUNDS; i += 1) {
    const one = await go();
    rounds.push(one);
    say(`round ${i + 1}: ${round(one.total)} µs, ${Math.round(one.perSecond)}/s`);
  }
  redis.disconnect();
  const mid = (/** @type {keyof Awaited<ReturnType<typeof go>>} */ name) =>
    round(median(rounds.map((one) => one[name])));
  return {
    connections: CONNECTIONS,
    total_us: mid('total'),
    api_us: mid('api'),
    redis_us: mid('redis'),
    worker_us: mid('worker'),
    postgres_us: mid('postgres'),
    per_second: mid('perSecond'),
    p50_ms: mid('p50'),
    p99_ms: mid('p99'),
    goal: '≤ 135 µs: API 55, Redis 32, worker 25, Postgres 22',
    met: median(rounds.map(({ total }) => total)) <= 135,
  };
}
