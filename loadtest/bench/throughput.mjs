// How many checkouts a second are accepted, with the generator on the same machine?
//
// Method: rounds of checkouts, each by a user of their own and each taking a unit, over 128 keep-alive connections, in
// turn with the naive server (reference/naive.mjs: Express, one Postgres transaction with SELECT … FOR UPDATE on the
// campaign's row). Throughput and latency are medians of the rounds, measured by the generator. So is the CPU of each
// process for a checkout, by which an operator can size a sale (checkout-cpu adds them up). In turn with both, Redis
// alone makes the same decisions for a hundred concurrent callers of the SaleStore. Goal: at least 3 × the best peer,
// for which the naive server stands here.
// Last record (2026-11-23, 500719d, load 0.4): accepted_per_second 8956, p50_ms 13.5, p99_ms 25.2, cpu_us {"api":73.8,"redis":38.2,"worker":27.3,"postgres":19.4}, redis_by_itself_per_second 26636, naive_per_second 1285, ratio 7
import { fileURLToPath } from 'node:url';
import { Redis } from 'ioredis';
import { connectSale } from './decisions.mjs';
import { untilWritten } from './engine.mjs';
import { ROOT } from './environment.mjs';
import { checkoutRequest, drive, operator } from './load.mjs';
import { cpuOf, cpuSince, median, quantile, round } from './measure.mjs';

const ROUNDS = 5;
const CHECKOUTS = 5_000;
const NAIVE_CHECKOUTS = 1_000;
const CALLERS = 100;

/**
 * @param {import('./environment.mjs').Environment} environment
 * @param {(text: string) => void} say
 * @param {string} [root]
 */
export async function run(environment, say, root = ROOT) {
  const naive = await environment.start('naive', [fileURLToPath(new URL('reference/naive.mjs', import.meta.url))]);
  const product = `throughput-${Date.now()}`;
  await operator(environment.api.url, 'POST', '/admin/campaigns', {
    product_id: product,
    total_limit: 10_000_000,
    hold_seconds: 900,
  });
  let user = 0;
  const go = async (/** @type {import('./environment.mjs').Part} */ part, /** @type {number} */ count) => {
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
  const redis = new Redis(environment.redisUrl, { replyMapping: 'legacy' });
  const sale = await connectSale(root, environment.redisUrl);
  await go(environment.api, CHECKOUTS);
  /** @typedef {Awaited<ReturnType<typeof go>>} Round */
  /** @type {[Round[], Round[], number[], import('./measure.mjs').Cpu[]]} */
  const [api, reference, alone, cpu] = [[], [], [], []];
  for (let i = 0; i < ROUNDS; i += 1) {
    const before = cpuOf(environment);
    const ours = await go(environment.api, CHECKOUTS);
    await untilWritten(redis);
    cpu.push(cpuSince(environment, before, CHECKOUTS));
    const theirs = await go(naive, NAIVE_CHECKOUTS);
    api.push(ours);
    reference.push(theirs);
    // The worker has no part in this measurement.
    process.kill(environment.worker.pid, 'SIGSTOP');
    try {
      alone.push((CHECKOUTS / (await sale.decide(product, CHECKOUTS, CALLERS))) * 1000);
    } finally {
      process.kill(environment.worker.pid, 'SIGCONT');
    }
    await untilWritten(redis);
    say(`round ${i + 1}: ${Math.round(ours.perSecond)}/s, naive ${Math.round(theirs.perSecond)}/s`);
  }
  redis.disconnect();
  sale.close();
  const mid = (/** @type {Round[]} */ rounds, /** @type {keyof Round} */ key) => median(rounds.map((one) => one[key]));
  return {
    accepted_per_second: Math.round(mid(api, 'perSecond')),
    p50_ms: round(mid(api, 'p50')),
    p99_ms: round(mid(api, 'p99')),
    cpu_us: Object.fromEntries(
      /** @type {const} */ (['api', 'redis', 'worker', 'postgres']).map((part) => [
        part,
        round(median(cpu.map((micros) => micros[part]))),
      ]),
    ),
    redis_by_itself_per_second: Math.round(median(alone)),
    naive_per_second: Math.round(mid(reference, 'perSecond')),
    ratio: round(mid(api, 'perSecond') / mid(reference, 'perSecond')),
    goal: '≥ 3 × the best peer',
  };
}
