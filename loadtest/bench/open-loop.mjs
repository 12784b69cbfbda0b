// How long do shoppers wait when they arrive at a rate that does not depend on the server?
//
// Method: an open loop with a rate of checkouts (BENCH_RATE, 5,000 a second), each at a moment that is set beforehand,
// over 400 connections. A checkout without a free connection waits for one. Latency counts from the set moment, so it
// shows a server that falls behind. Each checkout has its own user and device and takes a unit. Medians of the rounds;
// CPU is that of all processes until the rows are written. The generator runs on the same machine. Goal: p99 ≤ 100 ms,
// all answered.
// Last record (2026-11-23, 500719d, load 0.4): offered_per_second 5000, done_per_second 4995, p50_ms 4.4, p99_ms 93.7, not_200 0, total_us 260.6, met true
import { Redis } from 'ioredis';
import { untilWritten } from './engine.mjs';
import { checkoutRequest, driveAtRate, operator } from './load.mjs';
import { cpuOf, cpuSince, median, quantile, round } from './measure.mjs';

const ROUNDS = 3;
const SECONDS = 10;
const WARM_UP_SECONDS = 2;
const CONNECTIONS = 400;
const PER_SECOND = Number(process.env.BENCH_RATE ?? 5_000);

/** @param {import('./environment.mjs').Environment} environment @param {(text: string) => void} say */
export async function run(environment, say) {
  const product = `open-loop-${Date.now()}`;
  await operator(environment.api.url, 'POST', '/admin/campaigns', {
    product_id: product,
    total_limit: 10_000_000,
    hold_seconds: 900,
  });
  const redis = new Redis(environment.redisUrl, { replyMapping: 'legacy' });
  let user = 0;
  const go = async (/** @type {number} */ seconds) => {
    const requests = Array.from({ length: PER_SECOND * seconds }, () =>
      checkoutRequest(product, `u${++user}`, `key-${product}-${user}`),
    );
    const before = cpuOf(environment);
    const { replies, ms, latencies } = await driveAtRate(environment.api.url, requests, PER_SECOND, CONNECTIONS);
    await untilWritten(redis);
    return {
      other: requests.length - (replies.get(200) ?? 0),
      done: (requests.length / ms) * 1000,
      p50: quantile(latencies, 0.5),
      p99: quantile(latencies, 0.99),
      micros: cpuSince(environment, before, requests.length).total,
    };
  };
  await go(WARM_UP_SECONDS);
  /** @type {Awaited<ReturnType<typeof go>>[]} */
  const rounds = [];
  for (let i = 0; i < ROUNDS; i += 1) {
    const one = await go(SECONDS);
    rounds.push(one);
    say(`round ${i + 1}: p50 ${round(one.p50)} ms, p99 ${round(one.p99)} ms, ${Math.round(one.done)}/s`);
  }
  redis.disconnect();
  const mid = (/** @type {keyof Awaited<ReturnType<typeof go>>} */ name) => median(rounds.map((one) => one[name]));
  const notServed = rounds.reduce((sum, { other }) => sum + other, 0);
  return {
    offered_per_second: PER_SECOND,
    done_per_second: Math.round(mid('done')),
    p50_ms: round(mid('p50')),
    p99_ms: round(mid('p99')),
    not_200: notServed,
    total_us: round(mid('micros')),
    goal: 'p99 ≤ 100 ms, all answered',
    met: mid('p99') <= 100 && notServed === 0,
  };
}
