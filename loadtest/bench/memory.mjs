// Memory. Does it stay flat over hours of sales, and does Redis free the memory of closed campaigns?
//
// Method: an hour's worth of small sales, one after the other, without the pauses between them. In each sale users take
// all units and a line forms. Most users with a unit pay, some release it, and a waiting user gets the unit and pays.
// All users poll their status. Then the campaign is closed. The resident memory of API and worker is read after each
// sale. The result is how much higher its lowest value is in the last quarter of the sales than in the second (the
// first warms up); the memory above that is garbage that was not collected yet. Redis's used memory is read before the
// first sale, at its highest, and after the last one has been archived, with the remaining keys by kind. The stream of
// events does not end with a sale, because it keeps the last 100,000 events for its readers. So it is emptied before
// those two measurements, and its memory is printed separately.
// Last record (2026-11-23, 74b70b8, load 0.3): sales 24, calls 439200, api_mb [301.8,323.7], worker_mb [173.6,166.6], growth [1.073,0.96], redis_mb {"start":3.4,"highest":164.3,"end":3.5}, events {"entries":100004,"mb":79.2}, redis_bytes_per_sale 3959, keys_left {"queues":-1,"campaign":24,"n":2}, met true

import { Redis } from 'ioredis';
import { requestBytes } from '../http-client.mjs';
import { usedBytes, withoutEvents } from './engine.mjs';
import { SERVICE } from './environment.mjs';
import { checkoutRequest, drive, operator } from './load.mjs';
import { last, residentBytes, round } from './measure.mjs';

const SALES = Number(process.env.BENCH_SALES ?? 24);
const UNITS = 3_000;
const WAITING = 3_000;
const GIVE_BACK_EVERY = 10;
/** Archiving begins half a minute after a sale has closed. */
const ARCHIVED_WITHIN_MS = 180_000;

/** @param {import('./environment.mjs').Environment} environment @param {(text: string) => void} say */
export async function run(environment, say) {
  const redis = new Redis(environment.redisUrl);
  try {
    return await measure(environment, redis, say);
  } finally {
    redis.disconnect();
  }
}

/**
 * @param {import('./environment.mjs').Environment} environment
 * @param {Redis} redis
 * @param {(text: string) => void} say
 */
async function measure(environment, redis, say) {
  await warmUp(environment, say);
  const archived = () => untilArchived(redis, say);
  await archived();
  await withoutEvents(redis);
  const atStart = { bytes: await usedBytes(redis), keys: await keysByKind(redis) };
  /** @type {[number[], number[]]} */
  const [api, worker] = [[], []];
  let highest = 0;
  let calls = 0;
  for (let sale = 1; sale <= SALES; sale += 1) {
    calls += await sell(environment, `memory-${Date.now()}-${sale}`);
    api.push(residentBytes(environment.api.pid));
    worker.push(residentBytes(environment.worker.pid));
    highest = Math.max(highest, await usedBytes(redis));
    if (sale % 4 === 0)
      say(
        `${sale} of ${SALES} sales: API ${mega(last(api))} MB, worker ${mega(last(worker))} MB, Redis ${mega(highest)} MB`,
      );
  }
  await archived();
  const before = await usedBytes(redis);
  const entries = await withoutEvents(redis);
  const atEnd = { bytes: await usedBytes(redis), keys: await keysByKind(redis) };
  const events = { entries, mb: mega(before - atEnd.bytes) };
  const [apiGrowth, workerGrowth] = [growth(api), growth(worker)];
  const left = Object.fromEntries(
    Object.entries(atEnd.keys)
      .map(([kind, count]) => [kind, count - (atStart.keys[kind] ?? 0)])
      .filter(([, more]) => more !== 0),
  );
  return {
    sales: SALES,
    calls,
    api_mb: [2, 4].map((number) => mega(Math.min(...quarter(api, number)))),
    worker_mb: [2, 4].map((number) => mega(Math.min(...quarter(worker, number)))),
    growth: [round(apiGrowth, 3), round(workerGrowth, 3)],
    redis_mb: { start: mega(atStart.bytes), highest: mega(highest), end: mega(atEnd.bytes) },
    events,
    redis_bytes_per_sale: Math.round((atEnd.bytes - atStart.bytes) / SALES),
    keys_left: left,
    goal: 'API and worker ≤ 1.1 ×, Redis back within 1 MB',
    met: apiGrowth <= 1.1 && workerGrowth <= 1.1 && atEnd.bytes - atStart.bytes <= 1024 * 1024,
  };
}

/**
 * Runs one sale beforehand, so that scripts, queues and connections exist.
 * @param {import('./environment.mjs').Environment} environment
 * @param {(text: string) => void} say
 */
async function warmUp(environment, say) {
  say('one sale to warm up');
  await sell(environment, `memory-warm-${Date.now()}`);
}

/**
 * @param {import('./environment.mjs').Environment} environment
 * @param {string} product
 * @returns {Promise<number>} how many calls it took
 */
async function sell(environment, product) {
  const { url } = environment.api;
  const { id } = await operator(url, 'POST', '/admin/campaigns', {
    product_id: product,
    total_limit: UNITS,
    hold_seconds: 900,
    waiting_room: { enabled: true },
  });
  const users = Array.from({ length: UNITS + WAITING }, (_, i) => `${product}-u${i}`);
  const checkouts = users.map((user) => checkoutRequest(product, user, `key-${user}`));
  const { bodies } = await drive(url, checkouts, { keepBodies: true });
  const answers = bodies.map((body) => JSON.parse(body).data);
  const held = answers.flatMap(({ reservation_id }) => (reservation_id ? [reservation_id] : []));
  if (held.length !== UNITS) throw new Error(`${held.length} units were given out instead of ${UNITS}`);
  const service = (/** @type {string} */ path, /** @type {string} */ reservation) =>
    requestBytes('POST', path, [`Authorization: Bearer ${SERVICE}`], { reservation_id: reservation });
  const isBack = (/** @type {unknown} */ _, /** @type {number} */ i) => i % GIVE_BACK_EVERY === 0;
  await all(
    url,
    held.filter(isBack).map((id) => service('/flash-sale/release', id)),
  );
  await all(
    url,
    held.filter((id, i) => !isBack(id, i)).map((id) => service('/flash-sale/confirm', id)),
  );
  const questions = users.map((user) =>
    requestBytes('GET', `/flash-sale/queue-status?product_id=${product}&user_id=${user}`, []),
  );
  await all(url, questions);
  // Users who were promoted need their ticket to read their reservation. Responses arrive in any order; a ticket has
  // its user.
  const tickets = answers.flatMap(({ status, ticket }) =>
    status === 'queued' ? [{ ticket, user: Buffer.from(ticket.split('.')[2], 'base64url').toString() }] : [],
  );
  const { bodies: standings } = await drive(
    url,
    tickets.map(({ ticket, user }) =>
      requestBytes('GET', `/flash-sale/queue-status?product_id=${product}&user_id=${user}`, [`X-Ticket: ${ticket}`]),
    ),
    { keepBodies: true },
  );
  const unanswered = standings.filter((body) => !JSON.parse(body).data);
  if (unanswered.length > 0) throw new Error(`${unanswered.length} got no status: ${unanswered[0]}`);
  const promoted = standings.map((body) => JSON.parse(body).data).filter(({ status }) => status === 'promoted');
  if (promoted.length !== UNITS / GIVE_BACK_EVERY) throw new Error(`${promoted.length} were promoted`);
  await all(
    url,
    promoted.map(({ reservation_id }) => service('/flash-sale/confirm', reservation_id)),
  );
  await operator(url, 'POST', `/admin/campaigns/${id}/close`);
  return 2 * users.length + held.length + tickets.length + promoted.length;
}

/** Sends requests that must all get 200. @param {string} url @param {readonly Buffer[]} requests */
async function all(url, requests) {
  const { replies } = await drive(url, requests);
  if (replies.get(200) !== requests.length) throw new Error(`not all were served: ${JSON.stringify([...replies])}`);
}

/** Waits until no closed campaign has users in Redis. @param {Redis} redis @param {(text: string) => void} say */
async function untilArchived(redis, say) {
  const giveUpAt = performance.now() + ARCHIVED_WITHIN_MS;
  say('waiting until what is over has been archived');
  for (;;) {
    const kinds = await keysByKind(redis);
    if (!kinds.people && !kinds.i) return;
    if (performance.now() > giveUpAt) return say(`not archived: ${JSON.stringify(kinds)}`);
    await new Promise((resolve) => setTimeout(resolve, 1_000));
  }
}

/** Counts the keys of each kind: the word after the product, or the one after the prefix. @param {Redis} redis */
async function keysByKind(redis) {
  /** @type {Record<string, number>} */
  const kinds = {};
  let cursor = '0';
  do {
    const [next, names] = await redis.scan(cursor, 'COUNT', 5_000);
    cursor = next;
    for (const name of names) {
      const kind = /^db1:\{[^}]*\}:(\w+)/.exec(name)?.[1] ?? /^db1:(\w+)/.exec(name)?.[1] ?? 'queues';
      kinds[kind] = (kinds[kind] ?? 0) + 1;
    }
  } while (cursor !== '0');
  return kinds;
}

/** @param {readonly number[]} values @param {number} number from 1 */
const quarter = (values, number) =>
  values.slice(Math.floor(((number - 1) * values.length) / 4), Math.floor((number * values.length) / 4));
/** @param {readonly number[]} values */
const growth = (values) => Math.min(...quarter(values, 4)) / Math.min(...quarter(values, 2));
/** @param {number} bytes */
const mega = (bytes) => round(bytes / 1024 / 1024);
