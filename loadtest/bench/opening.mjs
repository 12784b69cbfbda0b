// The opening second: 10,000 distinct users at once on 1,000 units.
//
// Method: 10,000 requests are sent over 500 connections as fast as the server takes them. 1,000 must be confirmed, the
// others in line, and none without a response. The ideal is the time for the same number in a calm round just before,
// over 32 connections. It is the second of two rounds, because the first warms up the processes. Goal: the last
// response within 3 × the ideal.
// Last record (2026-11-23, 500719d, load 0.4): confirmed 1000, in_line 9000, errors 0, last_answer_ms 1358, ideal_ms 1634, ratio 0.83, met true
import { checkoutRequest, drive, operator } from './load.mjs';
import { round } from './measure.mjs';

const PEOPLE = 10_000;
const UNITS = 1_000;

/** @param {import('./environment.mjs').Environment} environment @param {(text: string) => void} say */
export async function run(environment, say) {
  const open = async (/** @type {string} */ product) =>
    operator(environment.api.url, 'POST', '/admin/campaigns', {
      product_id: product,
      total_limit: UNITS,
      hold_seconds: 900,
      waiting_room: { enabled: true },
    });
  const all = (/** @type {string} */ product) =>
    Array.from({ length: PEOPLE }, (_, i) => checkoutRequest(product, `${product}-u${i}`, `key-${product}-${i}`));
  let ideal = 0;
  for (const calm of [`opening-warm-${Date.now()}`, `opening-calm-${Date.now()}`]) {
    await open(calm);
    ideal = (await drive(environment.api.url, all(calm), { connections: 32 })).ms;
  }
  const product = `opening-${Date.now()}`;
  await open(product);
  const { ms, replies } = await drive(environment.api.url, all(product), { connections: 500 });
  say(`all answered after ${Math.round(ms)} ms`);
  const errors = PEOPLE - (replies.get(200) ?? 0) - (replies.get(202) ?? 0);
  return {
    confirmed: replies.get(200) ?? 0,
    in_line: replies.get(202) ?? 0,
    errors,
    last_answer_ms: Math.round(ms),
    ideal_ms: Math.round(ideal),
    ratio: round(ms / ideal, 2),
    goal: '1,000 confirmed, 0 errors, ≤ 3 × the ideal',
    met: errors === 0 && replies.get(200) === UNITS && ms <= 3 * ideal,
  };
}
