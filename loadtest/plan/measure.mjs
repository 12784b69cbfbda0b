// `npm run plan -- --measure`: what this machine spends on each kind of request, on engines of its own, in about a
// minute. Each figure is the median of a few rounds; the kernel counts the CPU of each process.

import { Redis } from 'ioredis';
import pg from 'pg';
import { untilPublished, untilWritten, usedBytes, withoutEvents } from '../bench/engine.mjs';
import { startEnvironment } from '../bench/environment.mjs';
import { checkoutRequest, drive, operator, requestBytes } from '../bench/load.mjs';
import { cpuOf, cpuSince, median, residentBytes } from '../bench/measure.mjs';
import { machineFacts } from '../machine.mjs';
import { DEFAULT_COSTS } from './costs.mjs';

const ROUNDS = 5;
/** Requests of a round. A test of this program makes fewer. */
const REQUESTS = Number(process.env.PLAN_REQUESTS ?? 4_000);
const BACKLOG = 2.5 * REQUESTS;
const CONNECTIONS = 128;
const SAMPLED_RECORDS = 200;
/** A response has about this many bytes of headers, which the generator does not keep. */
const HEADER_BYTES = 1_000;

/**
 * @typedef {{ environment: import('../bench/environment.mjs').Environment, redis: Redis, database: pg.Client,
 *   say: (text: string) => void, users: number }} Bench
 */

/**
 * Measures the costs of this machine.
 * @param {string} root the checkout whose dist/ is run
 * @param {(text: string) => void} say
 * @returns {Promise<import('./costs.mjs').Costs>}
 */
export async function measureCosts(root, say) {
  // First, so that the load is that of the machine without this measurement.
  const facts = machineFacts(root);
  say('starting Redis, Postgres, an API and a worker');
  const environment = await startEnvironment({ root, say, env: { POLLS_PER_10_SECONDS: '1000000' } });
  const redis = new Redis(environment.redisUrl, { replyMapping: 'legacy' });
  const database = new pg.Client(environment.databaseUrl);
  try {
    await database.connect();
    const bench = { environment, redis, database, say, users: 0 };
    const processes = { api: residentBytes(environment.api.pid), worker: residentBytes(environment.worker.pid) };
    return await allCosts(bench, facts, processes);
  } finally {
    redis.disconnect();
    await database.end().catch(() => {});
    await environment.stop();
  }
}

/**
 * @param {Bench} bench
 * @param {ReturnType<typeof machineFacts>} facts
 * @param {{ api: number, worker: number }} processes resident bytes before any load
 * @returns {Promise<import('./costs.mjs').Costs>}
 */
async function allCosts(bench, facts, processes) {
  const checkout = await measureKind(bench, 'checkout', { units: 10_000_000, line: false, status: 200 });
  const place = await measureKind(bench, 'place', { units: 1, line: true, status: 202 });
  const refusal = await measureKind(bench, 'refusal', { units: 1, line: false, status: 410 });
  const poll = await measurePolls(bench, place);
  const backlog = await measureBacklog(bench);
  const record = await bytesOfRecord(bench.redis);
  return {
    ...facts,
    source: 'npm run plan -- --measure',
    cpu_us: {
      checkout: checkout.cpu,
      place: place.cpu,
      refusal: refusal.cpu,
      poll: poll.cpu,
      rejection: DEFAULT_COSTS.cpu_us.rejection,
      position: DEFAULT_COSTS.cpu_us.position,
    },
    persisted_per_second: backlog.perSecond,
    postgres_rows_per_second: DEFAULT_COSTS.postgres_rows_per_second,
    bytes: {
      redis_start: DEFAULT_COSTS.bytes.redis_start,
      redis_reservation: Math.max(0, checkout.redisBytes - record),
      redis_place: Math.max(0, place.redisBytes - record),
      redis_record: record,
      redis_journal_entry: backlog.entryBytes,
      redis_events: DEFAULT_COSTS.bytes.redis_events,
      postgres_reservation: checkout.postgresBytes,
      postgres_place: place.postgresBytes,
      postgres_wal: checkout.walBytes,
      api_process: Math.max(processes.api, DEFAULT_COSTS.bytes.api_process),
      api_socket: DEFAULT_COSTS.bytes.api_socket,
      worker_process: Math.max(processes.worker, DEFAULT_COSTS.bytes.worker_process),
      redis_in: checkout.redisIn,
      redis_out: checkout.redisOut,
      checkout_in: checkout.bytesIn,
      checkout_out: checkout.bytesOut,
      poll_in: poll.bytesIn,
      poll_out: poll.bytesOut,
    },
  };
}

/**
 * Drives requests of one kind, each of another user, and counts until the rows are committed and the events published.
 * @param {Bench} bench
 * @param {string} name
 * @param {{ units: number, line: boolean, status: number }} kind
 */
async function measureKind(bench, name, { units, line, status }) {
  const { environment, redis, database, say } = bench;
  const product = `plan-${name}-${Date.now()}`;
  const events = status !== 410;
  await operator(environment.api.url, 'POST', '/admin/campaigns', {
    product_id: product,
    total_limit: units,
    hold_seconds: 86_400,
    waiting_room: line ? { enabled: true, max_size: 10_000_000 } : { enabled: false },
  });
  // The first user takes the unit of a campaign that has one.
  if (units === 1) await drive(environment.api.url, checkouts(bench, product, 1));
  const go = async () => {
    const requests = checkouts(bench, product, REQUESTS);
    const published = await untilPublished(redis);
    const before = cpuOf(environment);
    const { replies, bodies } = await drive(environment.api.url, requests, {
      connections: CONNECTIONS,
      keepBodies: true,
    });
    if (replies.get(status) !== REQUESTS)
      throw new Error(`${name}: not all got ${status}: ${JSON.stringify([...replies])}`);
    await untilWritten(redis);
    if (status === 200) await untilPublished(redis, published + REQUESTS);
    const { total: _, ...cpu } = cpuSince(environment, before, REQUESTS);
    return { cpu, bodies, requests };
  };
  await go();
  await withoutEvents(redis);
  const [usedBefore, sizeBefore, walBefore] = [await usedBytes(redis), await sizeOf(database), await walOf(database)];
  const [inBefore, outBefore] = await networkOf(redis);
  /** @type {Awaited<ReturnType<typeof go>>[]} */
  const rounds = [];
  for (let i = 0; i < ROUNDS; i += 1) {
    rounds.push(await go());
    say(`${name}, round ${i + 1} of ${ROUNDS}`);
  }
  const [inAfter, outAfter] = await networkOf(redis);
  if (events) await withoutEvents(redis);
  const all = ROUNDS * REQUESTS;
  const last = /** @type {(typeof rounds)[number]} */ (rounds.at(-1));
  const of = (/** @type {keyof typeof last.cpu} */ part) => round(median(rounds.map(({ cpu }) => cpu[part])));
  return {
    cpu: { api: of('api'), redis: of('redis'), worker: of('worker'), postgres: of('postgres') },
    redisBytes: Math.round(((await usedBytes(redis)) - usedBefore) / all),
    postgresBytes: Math.round(((await sizeOf(database)) - sizeBefore) / all),
    walBytes: Math.round(((await walOf(database)) - walBefore) / all),
    redisIn: Math.round((inAfter - inBefore) / all),
    redisOut: Math.round((outAfter - outBefore) / all),
    bytesIn: Number(last.requests[0]?.length),
    bytesOut: Number(last.bodies[0]?.length) + HEADER_BYTES,
    bodies: last.bodies,
    product,
  };
}

/** @param {Bench} bench @param {string} product @param {number} count */
function checkouts(bench, product, count) {
  return Array.from({ length: count }, () => {
    bench.users += 1;
    return checkoutRequest(product, `plan-user-${bench.users}`, `key-${product}-${bench.users}`);
  });
}

/**
 * @param {Bench} bench
 * @param {{ bodies: readonly string[], product: string }} line
 */
async function measurePolls({ environment, say }, { bodies, product }) {
  const polls = bodies.map((body) => {
    const { ticket } = JSON.parse(body).data;
    const user = Buffer.from(ticket.split('.')[2], 'base64url').toString();
    const path = `/flash-sale/queue-status?product_id=${product}&user_id=${user}`;
    return requestBytes('GET', path, [`X-Ticket: ${ticket}`]);
  });
  /** @type {{ api: number, redis: number }[]} */
  const rounds = [];
  let bytesOut = 0;
  for (let i = -1; i < ROUNDS; i += 1) {
    const before = cpuOf(environment);
    const { replies, bodies: statuses } = await drive(environment.api.url, polls, {
      connections: CONNECTIONS,
      keepBodies: true,
    });
    if (replies.get(200) !== polls.length) throw new Error(`poll: not all got 200: ${JSON.stringify([...replies])}`);
    const cpu = cpuSince(environment, before, polls.length);
    // The first round warms up.
    if (i >= 0) rounds.push(cpu);
    bytesOut = Number(statuses[0]?.length) + HEADER_BYTES;
  }
  say('polls');
  const of = (/** @type {'api' | 'redis'} */ part) => round(median(rounds.map((cpu) => cpu[part])));
  const cpu = { api: of('api'), redis: of('redis'), worker: 0, postgres: 0 };
  return { cpu, bytesIn: Number(polls[0]?.length), bytesOut };
}

/** Stops the worker, so that the journal fills, and then times how fast one worker empties it. @param {Bench} bench */
async function measureBacklog(bench) {
  const { environment, redis, say } = bench;
  const product = `plan-backlog-${Date.now()}`;
  await operator(environment.api.url, 'POST', '/admin/campaigns', {
    product_id: product,
    total_limit: 10_000_000,
    hold_seconds: 86_400,
  });
  await untilWritten(redis);
  process.kill(environment.worker.pid, 'SIGSTOP');
  let entryBytes = 0;
  let began = 0;
  try {
    await drive(environment.api.url, checkouts(bench, product, BACKLOG), { connections: CONNECTIONS });
    entryBytes = Math.round(Number(await redis.call('MEMORY', 'USAGE', 'db1:journal', 'SAMPLES', '0')) / BACKLOG);
  } finally {
    process.kill(environment.worker.pid, 'SIGCONT');
    began = performance.now();
  }
  await untilWritten(redis);
  say('a backlog in the journal');
  return { entryBytes, perSecond: Math.round(BACKLOG / ((performance.now() - began) / 1_000)) };
}

/** Mean bytes of an idempotency record with its key. @param {Redis} redis */
async function bytesOfRecord(redis) {
  const [, found] = await redis.scan('0', 'MATCH', 'db1:i:*', 'COUNT', SAMPLED_RECORDS * 5);
  const sample = found.slice(0, SAMPLED_RECORDS);
  if (sample.length === 0) return DEFAULT_COSTS.bytes.redis_record;
  const sizes = await Promise.all(sample.map((key) => redis.call('MEMORY', 'USAGE', key)));
  return Math.round(sizes.reduce((/** @type {number} */ sum, size) => sum + Number(size), 0) / sizes.length);
}

/** Bytes that Redis has received and sent so far. @param {Redis} redis @returns {Promise<[number, number]>} */
async function networkOf(redis) {
  const text = await redis.info('stats');
  const of = (/** @type {string} */ name) => Number(new RegExp(`${name}:(\\d+)`).exec(text)?.[1] ?? 0);
  return [of('total_net_input_bytes'), of('total_net_output_bytes')];
}

/** Bytes of all tables with their indexes. @param {pg.Client} database */
async function sizeOf(database) {
  const { rows } = await database.query(
    "select sum(pg_total_relation_size(oid))::bigint as bytes from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace",
  );
  return Number(rows[0].bytes);
}

/** Bytes of the write-ahead log so far. @param {pg.Client} database */
async function walOf(database) {
  const { rows } = await database.query("select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint as bytes");
  return Number(rows[0].bytes);
}

/** @param {number} value */
const round = (value) => Math.round(value * 10) / 10;
