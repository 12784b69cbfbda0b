// P2. How many checkouts a second are accepted, with the generator on the same machine?
//
// Method: rounds of checkouts, each by a user of his own and each taking a unit, over 128 keep-alive connections, in turn with the
// naive server (reference/naive.mjs: Express, one Postgres transaction with SELECT … FOR UPDATE on the campaign's row). Throughput
// of the best round and the latency as the generator sees it. Goal: at least 3 × the best peer; the naive one stands in for it here.
import { fileURLToPath } from 'node:url';
import { checkoutRequest, drive, operator } from './load.mjs';
import { median, quantile, round } from './measure.mjs';

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
  await go(stage.api, CHECKOUTS);
  const [api, reference] = [[], []];
  for (let i = 0; i < ROUNDS; i += 1) {
    api.push(await go(stage.api, CHECKOUTS));
    reference.push(await go(naive, NAIVE_CHECKOUTS));
    say(`round ${i + 1}: ${Math.round(api.at(-1).perSecond)}/s, naive ${Math.round(reference.at(-1).perSecond)}/s`);
  }
  const mid = (rounds, key) => median(rounds.map((one) => one[key]));
  return {
    accepted_per_second: Math.round(mid(api, 'perSecond')),
    p50_ms: round(mid(api, 'p50')),
    p99_ms: round(mid(api, 'p99')),
    naive_per_second: Math.round(mid(reference, 'perSecond')),
    ratio: round(mid(api, 'perSecond') / mid(reference, 'perSecond')),
    goal: '≥ 3 × the best peer',
  };
}
