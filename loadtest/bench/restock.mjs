// Restock. Does a large restock delay other callers?
//
// Method: 40,000 people wait, every tenth of them with a socket. An operator adds 40,000 units, and the worker promotes
// users step by step. Meanwhile one checkout of another campaign is made every 20 ms. Measured: the time until all are
// promoted, the promotions that sockets missed, how long a step occupied Redis (SLOWLOG), how long the other checkouts
// took before and meanwhile, and the CPU of API and Redis for each promotion. There is no goal, but every socket must
// get its promotion.
// Last record (2026-11-23, 500719d, load 1.6): all_promoted_after_ms 4478, sockets 4000, never_told 0, step_p50_ms 1.61, step_p99_ms 13.49, others_before_p99_ms 7.9, others_p50_ms 12.1, others_p99_ms 53.4, others_max_ms 66.5, api_us 24.2, redis_us 34.4
import { Redis } from 'ioredis';
import { isPromoted, WebSocket } from '../sockets.mjs';
import { checkoutRequest, drive, operator } from './load.mjs';
import { cpuOf, cpuSince, quantile, round } from './measure.mjs';

const WAITING = 40_000;
const SOCKET_EVERY = 10;
const OTHERS_EVERY_MS = 20;
const QUIET_MS = 3_000;
const LIMIT_MS = 120_000;
/** Only calls as long as a step, because SLOWLOG copies the arguments of the calls that it keeps. */
const SLOW_MICROS = 400;

/** @param {import('./environment.mjs').Environment} environment @param {(text: string) => void} say */
export async function run(environment, say) {
  const { url } = environment.api;
  const [product, other] = [`restock-${Date.now()}`, `other-${Date.now()}`];
  const open = (/** @type {string} */ product_id, /** @type {number} */ units) =>
    operator(url, 'POST', '/admin/campaigns', {
      product_id,
      total_limit: units,
      hold_seconds: 3_600,
      waiting_room: { enabled: true, max_size: 100_000 },
    });
  await open(product, 0);
  await open(other, 1_000_000);
  const { bodies } = await drive(
    url,
    Array.from({ length: WAITING }, (_, i) => checkoutRequest(product, `u${i}`, `key-${product}-${i}`)),
    { keepBodies: true },
  );
  const tickets = bodies.filter((_, i) => i % SOCKET_EVERY === 0).map((body) => JSON.parse(body).data.ticket);
  let promoted = 0;
  /** @type {WebSocket[]} */
  const sockets = [];
  for (let from = 0; from < tickets.length; from += 100) {
    await Promise.all(tickets.slice(from, from + 100).map((ticket) => follow(url, ticket, sockets, () => promoted++)));
  }
  say(`${WAITING} wait, ${sockets.length} sockets are open`);

  const redis = new Redis(environment.redisUrl, { replyMapping: 'legacy' });
  let buyer = 0;
  const others = async (/** @type {() => boolean} */ isOver) => {
    const latencies = [];
    while (!isOver()) {
      buyer += 1;
      const request = checkoutRequest(other, `b${buyer}`, `key-${other}-${buyer}`);
      latencies.push(...(await drive(url, [request])).latencies);
      await new Promise((resolve) => setTimeout(resolve, OTHERS_EVERY_MS));
    }
    return latencies;
  };
  const quietEnd = performance.now() + QUIET_MS;
  const before = await others(() => performance.now() > quietEnd);
  await redis.config('SET', 'slowlog-log-slower-than', SLOW_MICROS, 'slowlog-max-len', 5_000);
  await redis.slowlog('RESET');
  const cpuBefore = cpuOf(environment);
  const began = performance.now();
  let over = false;
  const asking = others(() => over);
  await operator(url, 'POST', `/admin/campaigns/${product}/stock`, { delta: WAITING });
  for (;;) {
    const { waiting } = await operator(url, 'GET', `/admin/campaigns/${product}/stats`);
    if (waiting === 0 || performance.now() - began > LIMIT_MS) break;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  const ms = performance.now() - began;
  over = true;
  const meanwhile = await asking;
  const patience = performance.now() + 5_000;
  while (promoted < sockets.length && performance.now() < patience)
    await new Promise((resolve) => setTimeout(resolve, 50));
  const cpu = cpuSince(environment, cpuBefore, WAITING);
  /** @typedef {[id: number, at: number, micros: number, command: string[]]} SlowEntry */
  const steps = /** @type {SlowEntry[]} */ (await redis.slowlog('GET', 5_000))
    .filter(([, , , [command]]) => String(command).toLowerCase() === 'evalsha')
    .map(([, , micros]) => Number(micros));
  redis.disconnect();
  for (const socket of sockets) socket.terminate();
  return {
    all_promoted_after_ms: Math.round(ms),
    sockets: sockets.length,
    never_told: sockets.length - promoted,
    step_p50_ms: round(quantile(steps, 0.5) / 1000, 2),
    step_p99_ms: round(quantile(steps, 0.99) / 1000, 2),
    others_before_p99_ms: round(quantile(before, 0.99)),
    others_p50_ms: round(quantile(meanwhile, 0.5)),
    others_p99_ms: round(quantile(meanwhile, 0.99)),
    others_max_ms: round(quantile(meanwhile, 1)),
    api_us: round(cpu.api),
    redis_us: round(cpu.redis),
  };
}

/**
 * Opens a socket and waits for its `welcome`.
 * @param {string} url
 * @param {string} ticket
 * @param {WebSocket[]} sockets
 * @param {() => void} onPromoted
 */
function follow(url, ticket, sockets, onPromoted) {
  const socket = new WebSocket(`${url.replace('http', 'ws')}/flash-sale/ws?ticket=${ticket}`);
  sockets.push(socket);
  return new Promise((resolve, reject) => {
    socket.once('error', reject);
    socket.once('message', resolve);
    socket.on('message', (data) => {
      if (isPromoted(data)) onPromoted();
    });
  });
}
