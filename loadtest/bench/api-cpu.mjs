// How much CPU does a confirmed checkout cost the API, with all guards, the log and the metrics on?
//
// Method: the API and the reference (reference/bare-checkout.mjs: the smallest correct server, one EVALSHA a request)
// run side by side on one Redis. Rounds of checkouts go to one and the other in turn, over 64 keep-alive connections.
// Each checkout has its own user and device and takes a unit. The benchmark compares the median over the rounds of user
// and system time of the process divided by its responses. The generator does not sleep, because the kernel would
// charge the server for waking it, and the faster server more often. Goal: at most 0.95 × the reference.
// Last record (2026-11-23, 500719d, load 0.4): api_us 74.4, reference_us 37.4, best_us [61.2,34.5], ratio 1.989, met false

import { fileURLToPath } from 'node:url';
import { checkoutRequest, drive, operator } from './load.mjs';
import { cpuMicros, last, median, round } from './measure.mjs';

const ROUNDS = 11;
const CHECKOUTS = 4_000;

/** @param {import('./environment.mjs').Environment} environment @param {(text: string) => void} say */
export async function run(environment, say) {
  const bare = await environment.start('reference', [
    fileURLToPath(new URL('reference/bare-checkout.mjs', import.meta.url)),
  ]);
  const product = `api-cpu-${Date.now()}`;
  await operator(environment.api.url, 'POST', '/admin/campaigns', {
    product_id: product,
    total_limit: 10_000_000,
    hold_seconds: 900,
  });
  let user = 0;
  const round_ = async (/** @type {import('./environment.mjs').Part} */ part) => {
    const requests = Array.from({ length: CHECKOUTS }, () =>
      checkoutRequest(product, `u${++user}`, `key-${product}-${user}`),
    );
    const before = cpuMicros(part.pid);
    const { replies } = await drive(part.url, requests, { awake: true });
    if (replies.get(200) !== CHECKOUTS) throw new Error(`not all were served: ${JSON.stringify([...replies])}`);
    return (cpuMicros(part.pid) - before) / CHECKOUTS;
  };
  await round_(environment.api);
  await round_(bare);
  /** @type {[number[], number[]]} */
  const [api, reference] = [[], []];
  for (let i = 0; i < ROUNDS; i += 1) {
    api.push(await round_(environment.api));
    reference.push(await round_(bare));
    say(`round ${i + 1}: API ${round(last(api))} µs, reference ${round(last(reference))} µs`);
  }
  await bare.stop();
  return {
    api_us: round(median(api)),
    reference_us: round(median(reference)),
    best_us: [round(Math.min(...api)), round(Math.min(...reference))],
    ratio: round(median(api) / median(reference), 3),
    goal: '≤ 0.95',
    met: median(api) / median(reference) <= 0.95,
  };
}
