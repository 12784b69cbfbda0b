// Blocked. How much CPU does a request of a refused caller cost the API, compared with a confirmed checkout?
//
// Method: rounds of each kind in turn on one API, with all settings of a server behind one proxy. The benchmark
// compares the medians over the rounds of user and system time of the process divided by its responses. All requests
// are the same POST with the same body: from a banned network, with a banned device, with a banned user, from a device
// beyond its 20 a second. The last kind is the GET of a token from a network beyond its limit. Goal: a request of a
// banned caller costs less than a quarter of a confirmed checkout.
// Last record (2026-11-23, 500719d, load 1.0): us {"confirmed":75.2,"banned_network":20.2,"banned_device":26,"banned_user":25.2,"device_over_quota":56,"network_over_quota":18.6}, ratios {"banned_network":0.268,"banned_device":0.346,"banned_user":0.335,"device_over_quota":0.745,"network_over_quota":0.247}, met false
import { requestBytes } from '../http-client.mjs';
import { checkoutRequest, drive, operator } from './load.mjs';
import { cpuMicros, median, round } from './measure.mjs';

const ROUNDS = 9;
const REQUESTS = 3_000;
const TOKENS_PER_MINUTE = 50;
const BANNED_NETWORK = '198.51.100.1';
const FLOODING_NETWORK = '198.51.100.2';

export const extraEnv = { TRUST_PROXY: '1', TOKENS_PER_MINUTE: String(TOKENS_PER_MINUTE) };

/** @param {import('./environment.mjs').Environment} environment @param {(text: string) => void} say */
export const run = (environment, say) => measureBlocked(environment, say, ROUNDS);

/**
 * @param {import('./environment.mjs').Environment} environment
 * @param {(text: string) => void} say
 * @param {number} rounds
 */
export async function measureBlocked(environment, say, rounds) {
  const { api } = environment;
  const product = `blocked-${Date.now()}`;
  await operator(api.url, 'POST', '/admin/campaigns', {
    product_id: product,
    total_limit: 10_000_000,
    hold_seconds: 900,
  });
  for (const [kind, subject] of [
    ['network', BANNED_NETWORK],
    ['device', 'fp-banned'],
    ['user', 'u-banned'],
  ])
    await operator(api.url, 'POST', '/admin/bans', { kind, subject, reason: 'the bench' });

  let made = 0;
  const next = () => ++made;
  /** @param {string} address @param {{ device?: string, user?: string }} [who] */
  const checkout = (address, { device, user = `u${next()}` } = {}) =>
    checkoutRequest(product, user, `key-${product}-${next()}`, {
      ...(device === undefined ? {} : { device }),
      headers: [`X-Forwarded-For: ${address}`],
    });
  /** @type {Record<string, { status: number, request: () => Buffer }>} */
  const kinds = {
    confirmed: { status: 200, request: () => checkout('203.0.113.1') },
    banned_network: { status: 403, request: () => checkout(BANNED_NETWORK) },
    banned_device: { status: 403, request: () => checkout('203.0.113.1', { device: 'fp-banned' }) },
    banned_user: { status: 403, request: () => checkout('203.0.113.1', { user: 'u-banned' }) },
    // Of one user: a device of many needs a proof of work.
    device_over_quota: {
      status: 429,
      request: () => checkout('203.0.113.1', { device: 'fp-flooding', user: 'u-flooding' }),
    },
    network_over_quota: {
      status: 429,
      request: () =>
        requestBytes('GET', `/flash-sale/token?device_fp=fp-${next()}`, [`X-Forwarded-For: ${FLOODING_NETWORK}`]),
    },
  };
  /** @type {Record<string, number[]>} */
  const costs = Object.fromEntries(Object.keys(kinds).map((name) => [name, []]));
  for (let i = 0; i <= rounds; i += 1) {
    for (const [name, { status, request }] of Object.entries(kinds)) {
      const requests = Array.from({ length: REQUESTS }, request);
      const before = cpuMicros(api.pid);
      const { replies } = await drive(api.url, requests, { awake: true });
      const cost = (cpuMicros(api.pid) - before) / REQUESTS;
      // First uses up the quota.
      if ((replies.get(status) ?? 0) < REQUESTS * 0.95)
        throw new Error(`${name}: not all were answered ${status}: ${JSON.stringify([...replies])}`);
      // The first round warms up.
      if (i > 0) costs[name]?.push(cost);
    }
    if (i > 0)
      say(
        `round ${i}: ${Object.entries(costs)
          .map(([name, all]) => `${name} ${round(all.at(-1) ?? 0)}`)
          .join(', ')} µs`,
      );
  }
  const confirmed = median(costs.confirmed ?? []);
  const ratio = (/** @type {string} */ name) => round(median(costs[name] ?? []) / confirmed, 3);
  const banned = ['banned_network', 'banned_device', 'banned_user'];
  return {
    us: Object.fromEntries(Object.entries(costs).map(([name, all]) => [name, round(median(all))])),
    ratios: Object.fromEntries(
      Object.keys(kinds)
        .filter((name) => name !== 'confirmed')
        .map((name) => [name, ratio(name)]),
    ),
    goal: 'banned: < 0.25',
    met: banned.every((name) => ratio(name) < 0.25),
  };
}
