// How many refusals a second does the API send when all units are sold?
//
// Method: as throughput, on a campaign of ten units without a line; every checkout after the tenth gets `sold_out`.
// Last record (2026-11-23, 500719d, load 0.4): refused_per_second 18476, p99_ms 13.1, api_us 53.8
import { checkoutRequest, drive, operator } from './load.mjs';
import { cpuMicros, median, quantile, round } from './measure.mjs';

const ROUNDS = 5;
const CHECKOUTS = 5_000;

/** @param {import('./environment.mjs').Environment} environment @param {(text: string) => void} say */
export async function run(environment, say) {
  const product = `refusals-${Date.now()}`;
  await operator(environment.api.url, 'POST', '/admin/campaigns', {
    product_id: product,
    total_limit: 10,
    hold_seconds: 900,
  });
  let user = 0;
  /** @type {Record<'perSecond' | 'p99' | 'cpu', number>[]} */
  const rounds = [];
  for (let i = 0; i <= ROUNDS; i += 1) {
    const requests = Array.from({ length: CHECKOUTS }, () =>
      checkoutRequest(product, `u${++user}`, `key-${product}-${user}`),
    );
    const before = cpuMicros(environment.api.pid);
    const outcome = await drive(environment.api.url, requests, { connections: 128 });
    const cpu = (cpuMicros(environment.api.pid) - before) / CHECKOUTS;
    if (i === 0) continue;
    if (outcome.replies.get(410) !== CHECKOUTS)
      throw new Error(`not all were refused: ${JSON.stringify([...outcome.replies])}`);
    const perSecond = (CHECKOUTS / outcome.ms) * 1000;
    rounds.push({ perSecond, p99: quantile(outcome.latencies, 0.99), cpu });
    say(`round ${i}: ${Math.round(perSecond)}/s, ${round(cpu)} µs`);
  }
  const mid = (/** @type {'perSecond' | 'p99' | 'cpu'} */ key) => median(rounds.map((one) => one[key]));
  return {
    refused_per_second: Math.round(mid('perSecond')),
    p99_ms: round(mid('p99')),
    api_us: round(mid('cpu')),
    goal: '≥ 3 × the best peer',
  };
}
