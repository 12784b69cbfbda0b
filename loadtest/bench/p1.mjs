// P1. How much CPU does a confirmed checkout cost the API, with all guards, the log and the metrics on?
//
// Method: the API and the reference (reference/bare-checkout.mjs) run side by side on one Redis. Rounds of checkouts go to one
// and the other in turn, over keep-alive connections, each by a user and a device of its own, each taking a unit. What is
// compared is the median over the rounds of user and system time of the process divided by the checkouts it answered.
// Goal: at most 1.35 × the reference.
// Last record (2026-11-21, 4c44a10, load 1.5): api_us 67.6, reference_us 57.6, best_us [64.2,49.1], ratio 1.173, met true

import { fileURLToPath } from 'node:url';
import { checkoutRequest, drive, operator } from './load.mjs';
import { cpuMicros, median, round } from './measure.mjs';
import { ROOT } from './stage.mjs';

const ROUNDS = 11;
const CHECKOUTS = 4_000;

/** @param {import('./stage.mjs').Stage} stage @param {(text: string) => void} say @param {string} [root] */
export async function run(stage, say, root = ROOT) {
  const bare = await stage.start(
    'reference',
    [fileURLToPath(new URL('reference/bare-checkout.mjs', import.meta.url))],
    {
      BENCH_ROOT: root,
    },
  );
  const product = `p1-${Date.now()}`;
  await operator(stage.api.url, 'POST', '/admin/campaigns', {
    product_id: product,
    total_limit: 10_000_000,
    hold_seconds: 900,
  });
  let user = 0;
  const round_ = async (part) => {
    const requests = Array.from({ length: CHECKOUTS }, () =>
      checkoutRequest(product, `u${++user}`, `key-${product}-${user}`),
    );
    const before = cpuMicros(part.pid);
    const { replies } = await drive(part.url, requests);
    if (replies.get(200) !== CHECKOUTS) throw new Error(`not all were served: ${JSON.stringify([...replies])}`);
    return (cpuMicros(part.pid) - before) / CHECKOUTS;
  };
  await round_(stage.api);
  await round_(bare);
  const [api, reference] = [[], []];
  for (let i = 0; i < ROUNDS; i += 1) {
    api.push(await round_(stage.api));
    reference.push(await round_(bare));
    say(`round ${i + 1}: API ${round(api.at(-1))} µs, reference ${round(reference.at(-1))} µs`);
  }
  await bare.stop();
  return {
    api_us: round(median(api)),
    reference_us: round(median(reference)),
    best_us: [round(Math.min(...api)), round(Math.min(...reference))],
    ratio: round(median(api) / median(reference), 3),
    goal: '≤ 1.35',
    met: median(api) / median(reference) <= 1.35,
  };
}
