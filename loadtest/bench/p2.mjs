// P2. How many checkouts a second are accepted, with the generator on the same machine?
//
// Method: rounds of checkouts, each by a user of his own and each taking a unit, over 128 keep-alive connections, in turn with the
// naive server (reference/naive.mjs: Express, one Postgres transaction with SELECT … FOR UPDATE on the campaign's row). Throughput
// and latency are medians of the rounds, as the generator sees them; so is the CPU that each of our processes spent on a checkout, which says
// how to size a sale. In turn with both: the script that decides, sent by one client in pipelines of a hundred to Redis by itself. Goal: at least
// 3 × the best peer; the naive one stands in for it here.
// Last record (2026-11-21, 2ae8dd2, load 3.6): accepted_per_second 4308, p50_ms 27.2, p99_ms 58.5, cpu_us {"api":115.3,"redis":99.7,"worker":83.6,"postgres":71.5}, redis_by_itself_per_second 8888, naive_per_second 653, ratio 6.6
import { fileURLToPath } from 'node:url';
import { Redis } from 'ioredis';
import { checkoutRequest, drive, operator } from './load.mjs';
import { cpuMicros, cpuMicrosWithChildren, median, quantile, round } from './measure.mjs';
import { reserveCall } from './reference/reserve-call.mjs';
import { ROOT } from './stage.mjs';

const ROUNDS = 5;
const CHECKOUTS = 5_000;
const NAIVE_CHECKOUTS = 1_000;
const PIPELINE = 100;

/** @param {import('./stage.mjs').Stage} stage @param {(text: string) => void} say @param {string} [root] */
export async function run(stage, say, root = ROOT) {
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
  const [api, reference, alone] = [[], [], []];
  const cpu = { api: [], redis: [], worker: [], postgres: [] };
  for (let i = 0; i < ROUNDS; i += 1) {
    const before = spent();
    api.push(await go(stage.api, CHECKOUTS));
    await allWritten(stage);
    const after = spent();
    for (const [part, micros] of Object.entries(cpu)) micros.push((after[part] - before[part]) / CHECKOUTS);
    reference.push(await go(naive, NAIVE_CHECKOUTS));
    alone.push(await redisByItself(stage, root, product, i));
    await allWritten(stage);
    say(`round ${i + 1}: ${Math.round(api.at(-1).perSecond)}/s, naive ${Math.round(reference.at(-1).perSecond)}/s`);
  }
  const mid = (rounds, key) => median(rounds.map((one) => one[key]));
  return {
    accepted_per_second: Math.round(mid(api, 'perSecond')),
    p50_ms: round(mid(api, 'p50')),
    p99_ms: round(mid(api, 'p99')),
    cpu_us: Object.fromEntries(Object.entries(cpu).map(([part, micros]) => [part, round(median(micros))])),
    redis_by_itself_per_second: Math.round(median(alone)),
    naive_per_second: Math.round(mid(reference, 'perSecond')),
    ratio: round(mid(api, 'perSecond') / mid(reference, 'perSecond')),
    goal: '≥ 3 × the best peer',
  };
}

/** @returns decisions a second, while the worker only looks on @param {import('./stage.mjs').Stage} stage @param {string} root */
async function redisByItself(stage, root, product, number) {
  const redis = new Redis(stage.redisUrl, { replyMapping: 'legacy' });
  process.kill(stage.worker.pid, 'SIGSTOP');
  try {
    const call = await reserveCall(redis, root);
    const expiresAt = Math.floor(Date.now() / 1000) + 30;
    const began = performance.now();
    for (let from = 0; from < CHECKOUTS; from += PIPELINE) {
      const pipeline = redis.pipeline();
      for (let i = from; i < from + PIPELINE; i += 1) {
        const user = `alone-${number}-${i}`;
        pipeline.evalsha(...call({ product, user, qty: 1, device: user, expiresAt, key: `key-${product}-${user}` }));
      }
      const replies = await pipeline.exec();
      const other = replies?.find(([error, reply]) => error || reply[0] !== 'reserved');
      if (other) throw new Error(`Redis decided otherwise: ${JSON.stringify(other)}`);
    }
    return (CHECKOUTS / (performance.now() - began)) * 1000;
  } finally {
    process.kill(stage.worker.pid, 'SIGCONT');
    redis.disconnect();
  }
}

/** Until the journal is empty: what a checkout costs later belongs to it. @param {import('./stage.mjs').Stage} stage */
async function allWritten(stage) {
  const redis = new Redis(stage.redisUrl);
  while ((await redis.xlen('db1:journal')) > 0) await new Promise((resolve) => setTimeout(resolve, 20));
  redis.disconnect();
}
