// P2. How many checkouts a second are accepted, with the generator on the same machine?
//
// Method: rounds of checkouts, each by a user of his own and each taking a unit, over 128 keep-alive connections, in turn with the
// naive server (reference/naive.mjs: Express, one Postgres transaction with SELECT … FOR UPDATE on the campaign's row). Throughput
// and latency are medians of the rounds, as the generator sees them; so is the CPU that each of our processes spent on a checkout, which says
// how to size a sale. In turn with both: the script that decides, sent by one client in pipelines of a hundred to Redis by itself. Goal: at least
// 3 × the best peer; the naive one stands in for it here.
// Last record (2026-11-21, 493dc8f with changes, load 0.9): accepted_per_second 4701, p50_ms 25.8, p99_ms 48.3, cpu_us {"api":101.6,"redis":98.4,"worker":76.8,"postgres":67.9}, redis_by_itself_per_second 11546, naive_per_second 786, ratio 6
import { fileURLToPath } from 'node:url';
import { Redis } from 'ioredis';
import { untilWritten } from './engine.mjs';
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
  const redis = new Redis(stage.redisUrl, { replyMapping: 'legacy' });
  const call = await reserveCall(redis, root);
  await go(stage.api, CHECKOUTS);
  const [api, reference, alone] = [[], [], []];
  const cpu = { api: [], redis: [], worker: [], postgres: [] };
  for (let i = 0; i < ROUNDS; i += 1) {
    const before = spent();
    api.push(await go(stage.api, CHECKOUTS));
    await untilWritten(redis);
    const after = spent();
    for (const [part, micros] of Object.entries(cpu)) micros.push((after[part] - before[part]) / CHECKOUTS);
    reference.push(await go(naive, NAIVE_CHECKOUTS));
    const users = Array.from({ length: CHECKOUTS }, (_, n) => `alone-${i}-${n}`);
    // The worker only looks on.
    process.kill(stage.worker.pid, 'SIGSTOP');
    try {
      alone.push(await decide(redis, call, product, users));
    } finally {
      process.kill(stage.worker.pid, 'SIGCONT');
    }
    await untilWritten(redis);
    say(`round ${i + 1}: ${Math.round(api.at(-1).perSecond)}/s, naive ${Math.round(reference.at(-1).perSecond)}/s`);
  }
  redis.disconnect();
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

/** @returns decisions a second @param {Redis} redis @param {string} product @param {readonly string[]} users */
async function decide(redis, call, product, users) {
  const expiresAt = Math.floor(Date.now() / 1000) + 30;
  const began = performance.now();
  for (let from = 0; from < users.length; from += PIPELINE) {
    const pipeline = redis.pipeline();
    for (const user of users.slice(from, from + PIPELINE))
      pipeline.evalsha(...call({ product, user, qty: 1, device: user, expiresAt, key: `key-${product}-${user}` }));
    const replies = await pipeline.exec();
    const other = replies?.find(([error, reply]) => error || reply[0] !== 'reserved');
    if (other) throw new Error(`Redis decided otherwise: ${JSON.stringify(other)}`);
  }
  return (users.length / (performance.now() - began)) * 1000;
}
