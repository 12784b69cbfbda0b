// Half a million checkouts in a minute. What share of them does this machine hold, and what would the whole need?
//
// People: 500,000 users × scale arrive within one minute, each at its own moment, whatever the server does (an open
// loop), for 50,000 units × scale of one campaign in ten buckets on a Redis Cluster of three primaries with a replica
// each. Each has its own device token. Below a tenth of the people, the minute has six seconds. What must hold: each
// user gets a unit or a place, and the last response comes within five seconds after the minute. A machine that does
// not hold the rate fails. Reported is the CPU of every process for one checkout until its row is in Postgres, and
// from it how many cores the whole would need.
//
// It starts engines and services of its own (stage.mjs), to count their CPU.
import { arrive, ConnectionPool } from '../arrivals.mjs';
import { tokenOf } from '../bench/load.mjs';
import { round } from '../bench/measure.mjs';

const BUCKETS = 10;
const CONNECTIONS = 400;
const PEOPLE = 500_000;
const UNITS = 50_000;
const MINUTE_MS = 60_000;
const SHORT_MS = 6_000;
const SHORT_BELOW = 0.1;
const LATE_MS = 5_000;
const TOKEN_SECONDS = 30;
const PER_SECOND_OF_ALL = PEOPLE / 60;
const BACKLOG_LIMIT_MS = 60_000;

/** @type {import('../scenario.js').Scenario<{ people: number, units: number, seconds: number }>} */
export const scenario = {
  question:
    'What share of half a million checkouts in a minute does this machine hold, and what would all of them need?',
  driver: 'a generator of its own',
  stage: { primaries: 3, replicas: 1, shards: 16 },
  limitMs: 180_000,
  answers: { checkout: ['200 completed', '202 queued'] },
  plan(scale) {
    const ms = scale < SHORT_BELOW ? SHORT_MS : MINUTE_MS;
    const share = scale * (ms / MINUTE_MS);
    return { people: Math.ceil(PEOPLE * share), units: Math.ceil(UNITS * share), seconds: ms / 1000 };
  },
  async run(run, { people, units, seconds }) {
    const { stage, tally } = run;
    if (!stage) throw new Error('the scenario needs a stage');
    const product = await run.openCampaign('half-a-million', {
      ...{ total_limit: units, buckets: BUCKETS, hold_seconds: 3_600, waiting_room: { enabled: true } },
    });
    const pool = await ConnectionPool.open(run.target.url, CONNECTIONS);
    const before = stage.cpu();
    let lateMs = 0;
    let given = 0;
    await run.underLoad(async () => {
      const began = performance.now();
      const checkOut = async (/** @type {number} */ at, /** @type {number} */ due) => {
        const user = `u-${run.id}-${at}`;
        const expiresAt = Math.floor(Date.now() / 1000) + TOKEN_SECONDS;
        const device = tokenOf(`d-${user}`, expiresAt, stage.attestationKey);
        const json = { product_id: product, user_id: user, qty: 1, ...device };
        const bytes = pool.prepare('POST', '/flash-sale/checkout', json, [`Idempotency-Key: key-of-${user}`]);
        const answer = await pool.ask(tally, 'checkout', bytes, { since: due });
        lateMs = performance.now() - began - seconds * 1000;
        if (answer?.status !== 200) return;
        given += 1;
        tally.promised(product, user, answer.body.data.reservation_id);
      };
      await arrive(people, seconds * 1000, checkOut, run.pause);
    });
    pool.close();
    await run.settled(product, (stats) => stats.free === 0 && stats.journal_backlog === 0, BACKLOG_LIMIT_MS);
    tellCosts(run, costsOf(before, stage.cpu(), people), people / seconds);
    run.fact('last_response_late_ms', Math.round(lateMs));
    run.fact('given_at_once', given);
    run.check(
      'the last response came within five seconds after the last arrival',
      lateMs < LATE_MS,
      Math.round(lateMs),
    );
    run.reservations(product, units);
  },
};

/**
 * CPU of one checkout, µs.
 * @param {import('../stage.mjs').StageCpu} before
 * @param {import('../stage.mjs').StageCpu} after
 * @param {number} people
 */
function costsOf(before, after, people) {
  const each = (/** @type {'api' | 'worker' | 'postgres' | 'replicas'} */ part) =>
    (after[part] - before[part]) / people;
  const nodes = after.nodes.map((micros, i) => (micros - Number(before.nodes[i])) / people);
  return {
    ...{ api: each('api'), worker: each('worker'), postgres: each('postgres'), replicas: each('replicas') },
    ...{ nodes: nodes.reduce((sum, micros) => sum + micros, 0), busiestNode: Math.max(...nodes) },
  };
}

/**
 * Reports the costs, and what all people would need.
 * @param {import('../run.mjs').LoadRun} run
 * @param {ReturnType<typeof costsOf>} costs
 * @param {number} perSecond
 */
function tellCosts(run, costs, perSecond) {
  const { api, worker, postgres, nodes, replicas, busiestNode } = costs;
  const total = api + worker + postgres + nodes + replicas;
  const cores = (/** @type {number} */ micros) => round((micros * PER_SECOND_OF_ALL) / 1e6, 2);
  for (const [part, micros] of Object.entries({ api, worker, postgres, nodes, replicas, total }))
    run.fact(`${part}_us_a_checkout`, round(micros));
  run.fact('offered_per_second', Math.round(perSecond));
  run.fact('cores_for_all', cores(total));
  run.fact('busiest_node_cores_for_all', cores(busiestNode));
  run.say(
    `offered ${Math.round(perSecond)}/s; a checkout cost ${round(total)} µs of CPU without the generator: API ${round(api)}, worker ${round(worker)}, Postgres ${round(postgres)}, three nodes ${round(nodes)}, replicas ${round(replicas)}`,
  );
  run.say(
    `all 500,000 are ${Math.round(PER_SECOND_OF_ALL)}/s: ${cores(total)} cores in all, of which the API ${cores(api)} and the busiest node ${cores(busiestNode)}`,
  );
}
