// Ten buckets on three nodes. Does one line keep its order while nodes are killed and frozen?
//
// People: 100,000 users arrive within 50 seconds, each at its own moment, for 10,000 units of one campaign that is
// divided into ten buckets on a Redis Cluster of three primaries with a replica each. A user who gets a 503 tries again
// with the same key. At 30 % of the arrivals a primary is killed with SIGKILL, and started again five seconds later. At
// 65 % another one is frozen for five seconds. Then 2,000 units are released in ten waves, and the third primary is
// killed before the sixth one. What must hold after the arrivals and after each wave: no unit is free while users wait.
// No user has a unit who asked after a user who still waits had a place. No user gets a unit at once after the first
// one had a place. Each user is answered, and exactly as many have a unit as there are.
//
// It starts engines and services of its own (stage.mjs), because it kills nodes.
import { arrive, ConnectionPool } from '../arrivals.mjs';
import { forEach } from '../http-client.mjs';
import { servedBesideTheLine, servedPast } from '../order.mjs';
import { pageOf } from '../target.mjs';

const BUCKETS = 10;
const CONNECTIONS = 400;
const ARRIVALS_MS = 50_000;
const WAVES = 10;
const KILL_AT = 0.3;
const FREEZE_AT = 0.65;
const KILL_BEFORE_WAVE = 5;
const DOWN_MS = 5_000;
const TRY_AGAIN_MS = 500;
const GIVE_UP_MS = 60_000;
const RELEASED_AT_ONCE = 50;

/**
 * @typedef {import('../run.mjs').LoadRun} LoadRun
 * @typedef {import('../../scripts/engines/engine.js').RunningCluster['nodes'][number]} ClusterServer
 * @typedef {import('../order.mjs').Person & { reservation: string | null }} Shopper
 */

/** @type {import('../scenario.js').Scenario<{ people: number, units: number, releases: number }>} */
export const scenario = {
  question: 'Does one line over ten buckets on three nodes keep its order while nodes are killed and frozen?',
  driver: 'a generator of its own',
  stage: { primaries: 3, replicas: 1, shards: 16 },
  limitMs: 300_000,
  answers: {
    checkout: ['200 completed', '202 queued', '503 temporarily_unavailable'],
    release: ['200 released', '503 temporarily_unavailable'],
  },
  plan: (scale) => ({
    people: Math.ceil(100_000 * scale),
    units: Math.ceil(10_000 * scale),
    releases: Math.ceil(2_000 * scale),
  }),
  async run(run, { people, units, releases }) {
    const product = await run.openCampaign('ten-buckets', {
      ...{ total_limit: units, buckets: BUCKETS, hold_seconds: 3_600 },
      ...{ waiting_room: { enabled: true }, require_attestation: false },
    });
    const pool = await ConnectionPool.open(run.target.url, CONNECTIONS);
    /** @type {Shopper[]} */
    const shoppers = [];
    const faults = new NodeFaults(run);
    await run.underLoad(async () => {
      const ms = Math.max(1_000, ARRIVALS_MS * (people / 100_000));
      const shop = async (/** @type {number} */ at) => {
        if (at === Math.floor(people * KILL_AT)) faults.kill(0);
        if (at === Math.floor(people * FREEZE_AT)) faults.freeze(1);
        const shopper = await checkOut(run, pool, product, `u-${run.id}-${at}`);
        if (shopper) shoppers.push(shopper);
      };
      await arrive(people, ms, shop, run.pause);
      await faults.over();
      const given = shoppers.filter(({ direct }) => direct);
      for (const { user, reservation } of given) run.tally.promised(product, user, String(reservation));
      run.say(`${given.length} users got a unit at once, ${shoppers.length - given.length} a place`);
      const beside = servedBesideTheLine(shoppers);
      run.check('no unit at once after the first user had a place', beside.length === 0, beside.slice(0, 3));
      await expectOrder(run, product, units, shoppers, 'the arrivals');
      const each = Math.ceil(Math.min(releases, given.length) / WAVES);
      for (let wave = 0; wave < WAVES; wave += 1) {
        if (wave === KILL_BEFORE_WAVE) faults.kill(2);
        await forEach(given.slice(wave * each, (wave + 1) * each), RELEASED_AT_ONCE, ({ reservation }) =>
          release(run, pool, String(reservation)),
        );
        await faults.over();
        await expectOrder(run, product, units, shoppers, `wave ${wave + 1}`);
      }
    });
    pool.close();
    const served = await usersWithRows(run, product);
    const released = Math.min(releases, shoppers.filter(({ direct }) => direct).length);
    run.check('every user was answered', shoppers.length === people, shoppers.length);
    run.check('as many users had a unit as there were', served.size === units + released, served.size);
    run.reservations(product, units + released);
  },
};

/**
 * Checks out until there is another response than 503.
 * @param {LoadRun} run @param {ConnectionPool} pool @param {string} product @param {string} user
 * @returns {Promise<Shopper | null>} null = no response
 */
async function checkOut(run, pool, product, user) {
  const json = { product_id: product, user_id: user, qty: 1 };
  const bytes = pool.prepare('POST', '/flash-sale/checkout', json, [`Idempotency-Key: key-of-${user}`]);
  /** @type {number | null} */
  let asked = null;
  const answer = await insist(run, pool, 'checkout', bytes, () => {
    asked ??= performance.now();
  });
  if (!answer || answer.status === 503 || asked === null) return null;
  const { status, body } = answer;
  const direct = status === 200;
  return { user, asked, placed: performance.now(), direct, reservation: direct ? body.data.reservation_id : null };
}

/** @param {LoadRun} run @param {ConnectionPool} pool @param {string} reservation */
async function release(run, pool, reservation) {
  const headers = [`Authorization: Bearer ${run.target.serviceKey}`];
  const bytes = pool.prepare('POST', '/flash-sale/release', { reservation_id: reservation }, headers);
  const answer = await insist(run, pool, 'release', bytes);
  if (answer?.status !== 200) run.tally.fault(`${reservation} was not released`);
}

/**
 * @param {LoadRun} run @param {ConnectionPool} pool @param {string} name @param {Buffer} bytes
 * @param {() => void} [onSend]
 */
async function insist(run, pool, name, bytes, onSend = () => {}) {
  const giveUpAt = performance.now() + GIVE_UP_MS;
  for (;;) {
    const answer = await pool.ask(run.tally, name, bytes, { onSend });
    if (answer?.status !== 503 || performance.now() > giveUpAt) return answer;
    await run.pause(TRY_AGAIN_MS * (0.5 + Math.random()));
  }
}

/**
 * Waits until no unit is free or on its way to another bucket, and checks the order by the rows that are then in
 * Postgres.
 * @param {LoadRun} run @param {string} product @param {number} units @param {readonly Shopper[]} shoppers
 * @param {string} after
 */
async function expectOrder(run, product, units, shoppers, after) {
  const began = performance.now();
  const rest = { free: Number.NaN, waiting: Number.NaN, total: Number.NaN };
  const giveUpAt = began + GIVE_UP_MS;
  for (;;) {
    const stats = await run.stats(product).catch(() => null);
    if (stats) Object.assign(rest, stats);
    // A unit on its way counts in no bucket.
    const isSettled = stats && stats.total === units && (stats.free === 0 || stats.waiting === 0);
    if (isSettled && stats.journal_backlog === 0) break;
    if (performance.now() > giveUpAt) break;
    await run.pause(20);
  }
  const ms = Math.round(performance.now() - began);
  run.check(`no unit is free while users wait, after ${after}`, rest.free === 0 || rest.waiting === 0, rest);
  const past = servedPast(shoppers, await usersWithRows(run, product));
  run.check(`no user was served past a waiting one, after ${after}`, past.length === 0, past.slice(0, 3));
  run.say(`after ${after}: nothing free and all in Postgres ${ms} ms later, ${past.length} served out of order`);
}

/** @param {LoadRun} run @param {string} product @returns {Promise<Set<string>>} who has or had a unit */
async function usersWithRows({ target }, product) {
  /** @type {Set<string>} */
  const users = new Set();
  let cursor = '';
  for (;;) {
    const page = await pageOf(target, `/admin/campaigns/${product}/redemptions?limit=1000${cursor}`);
    for (const { user_id } of page.data) users.add(user_id);
    if (page.next_cursor === null) return users;
    cursor = `&cursor=${page.next_cursor}`;
  }
}

/** Kills and freezes primaries of the stage, and brings them back. */
class NodeFaults {
  /** @type {Promise<void>[]} */
  #under = [];

  /** @param {LoadRun} run */
  constructor(run) {
    this.run = run;
  }

  /** @param {number} node */
  kill(node) {
    this.#begin(node, 'killed', 'SIGKILL', (one) => one.startAgain());
  }

  /** @param {number} node */
  freeze(node) {
    this.#begin(node, 'frozen', 'SIGSTOP', async ({ engine }) => engine.kill('SIGCONT'));
  }

  /** Returns when all nodes are back. */
  async over() {
    await Promise.all(this.#under);
  }

  /**
   * @param {number} at
   * @param {string} word
   * @param {NodeJS.Signals} signal
   * @param {(node: ClusterServer) => Promise<void>} bringBack
   */
  #begin(at, word, signal, bringBack) {
    const node = this.run.stage?.cluster.nodes[at];
    if (!node) throw new Error(`there is no node ${at}`);
    this.run.say(`node ${at + 1} is ${word}`);
    node.engine.kill(signal);
    const back = async () => {
      await this.run.pause(DOWN_MS);
      await bringBack(node);
      this.run.say(`node ${at + 1} is back`);
    };
    this.#under.push(back());
  }
}
