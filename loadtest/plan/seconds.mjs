// What each second of a sale looks like: people arrive, Redis decides, the journal fills, Postgres catches up. Pure.

/** A 503 asks the client to come back after this time. */
const RETRY_SECONDS = 1;
/** A simulation that has not ended by then never will. */
const LONGEST_SECONDS = 24 * 3_600;

/**
 * @typedef {{ people: number, units: number, withinSeconds: number, line: boolean,
 *   cpuUs: Record<'checkout' | 'other' | 'rejection', { api: number, redis: number, persist: number }>,
 *   polls: { perPerson: number, api: number, redis: number }, apiCores: number, redisCores: number,
 *   sharedCores: number | null, inFlight: number, persistPerSecond: number, journalLimit: number }} Sale
 *   other: a place in line, or a refusal; polls: a second of each person in line, and CPU of one, µs; redisCores: cores
 *   of all nodes, as far as the busiest one allows; sharedCores: all parts together have no more; inFlight: requests
 *   that all API processes take at once
 * @typedef {{ second: number, arrived: number, decided: number, waiting: number, rejected: number, reserved: number,
 *   other: number, backlog: number, persisted: number, redisBusy: number, apiBusy: number }} Second
 *   waiting: requests without a response at the end of the second; rejected: 503 in this second
 * @typedef {{ seconds: readonly Second[], lastResponseSeconds: number | null, persistedAfterSeconds: number | null,
 *   largestBacklog: number, rejections: number, largestInFlight: number }} Course null = not within a day
 */

/**
 * Follows a sale from its opening until all people have a response and all entries are persisted.
 * @param {Sale} sale
 * @returns {Course}
 */
export function simulate(sale) {
  /** @type {Second[]} */
  const seconds = [];
  let [arrivedInAll, waiting, coming, decidedInAll, reserved, backlog, rejections] = [0, 0, 0, 0, 0, 0, 0];
  let [largestBacklog, largestInFlight] = [0, 0];
  let lastResponseSeconds = null;
  let persistedAfterSeconds = null;
  for (let second = 1; second <= LONGEST_SECONDS; second += 1) {
    const due = Math.round((sale.people * Math.min(second, sale.withinSeconds)) / sale.withinSeconds);
    const arrived = due - arrivedInAll;
    arrivedInAll = due;
    const asking = waiting + arrived + coming;
    const room = Math.max(0, sale.journalLimit - backlog);
    const polls = sale.line ? (decidedInAll - reserved) * sale.polls.perPerson : 0;
    const { decided, newReserved } = decide(sale, asking, sale.units - reserved, room, polls);
    const undecided = asking - decided;
    const rejected = Math.max(0, undecided - sale.inFlight);
    const used = usedCores(sale, decided, newReserved, rejected, polls);
    waiting = undecided - rejected;
    coming = rejected * RETRY_SECONDS;
    rejections += rejected;
    reserved += newReserved;
    const toPersist = backlog + (sale.line ? decided : newReserved);
    const persisted = Math.min(toPersist, persistable(sale, decided, newReserved));
    backlog = toPersist - persisted;
    decidedInAll += decided;
    largestBacklog = Math.max(largestBacklog, backlog);
    largestInFlight = Math.max(largestInFlight, waiting);
    seconds.push({
      second,
      arrived,
      decided,
      waiting,
      rejected,
      reserved: newReserved,
      other: decided - newReserved,
      backlog: Math.round(backlog),
      persisted: Math.round(persisted),
      redisBusy: used.redis / sale.redisCores,
      apiBusy: used.api / sale.apiCores,
    });
    const allAnswered = decidedInAll >= sale.people;
    if (allAnswered && lastResponseSeconds === null) lastResponseSeconds = endOf(sale, second, decided, asking, used);
    if (allAnswered && backlog < 1) {
      persistedAfterSeconds = second;
      break;
    }
    if (decided === 0 && persisted === 0 && arrived === 0) break;
  }
  return { seconds, lastResponseSeconds, persistedAfterSeconds, largestBacklog, rejections, largestInFlight };
}

/**
 * How many requests are decided in one second: first those that get a unit, then the others, until a part is busy.
 * @param {Sale} sale
 * @param {number} asking
 * @param {number} unitsLeft
 * @param {number} room for entries in the journal
 * @param {number} polls which come first
 */
function decide(sale, asking, unitsLeft, room, polls) {
  const perSecond = (/** @type {'checkout' | 'other'} */ kind) => {
    const { api, redis, persist } = sale.cpuUs[kind];
    const shared = sale.sharedCores === null ? 0 : (api + redis + persist) / (sale.sharedCores * 1e6);
    return Math.max(api / (sale.apiCores * 1e6), redis / (sale.redisCores * 1e6), shared);
  };
  const [eachUnit, eachOther] = [perSecond('checkout'), perSecond('other')];
  const { api, redis } = sale.polls;
  const busy = Math.max((polls * api) / (sale.apiCores * 1e6), (polls * redis) / (sale.redisCores * 1e6));
  const free = Math.max(0, 1 - busy);
  const newReserved = whole(Math.min(asking, unitsLeft, free / eachUnit, room));
  const left = Math.max(0, free - newReserved * eachUnit);
  const others = asking - newReserved > 0 && newReserved >= Math.min(unitsLeft, asking) ? left / eachOther : 0;
  const roomLeft = sale.line ? room - newReserved : Number.POSITIVE_INFINITY;
  const decided = newReserved + whole(Math.min(asking - newReserved, others, roomLeft));
  return { decided, newReserved };
}

/** Whole requests; 4.999999999 are five. @param {number} requests */
const whole = (requests) => Math.floor(requests + 1e-6);

/**
 * @param {Sale} sale
 * @param {number} decided
 * @param {number} reserved
 * @param {number} rejected
 * @param {number} asked polls
 * @returns cores
 */
function usedCores({ cpuUs, polls }, decided, reserved, rejected, asked) {
  const of = (/** @type {'api' | 'redis'} */ part) => {
    const decisions = reserved * cpuUs.checkout[part] + (decided - reserved) * cpuUs.other[part];
    return (decisions + rejected * cpuUs.rejection[part] + asked * polls[part]) / 1e6;
  };
  return { api: of('api'), redis: of('redis') };
}

/**
 * How many entries are persisted in a second. On shared cores that is what the decisions leave.
 * @param {Sale} sale
 * @param {number} decided
 * @param {number} reserved
 */
function persistable({ sharedCores, persistPerSecond, cpuUs }, decided, reserved) {
  if (sharedCores === null) return persistPerSecond;
  const work =
    reserved * (cpuUs.checkout.api + cpuUs.checkout.redis) +
    (decided - reserved) * (cpuUs.other.api + cpuUs.other.redis);
  const each = Math.max(cpuUs.checkout.persist, 1e-9);
  return Math.min(persistPerSecond, Math.max(0, sharedCores * 1e6 - work) / each);
}

/**
 * When the last response is sent, within its second: at once if there is time left after the last arrival.
 * @param {Sale} sale
 * @param {number} second
 * @param {number} decided
 * @param {number} asking
 * @param {{ api: number, redis: number }} used
 */
function endOf(sale, second, decided, asking, used) {
  if (decided < asking) return second;
  const shared =
    sale.sharedCores === null
      ? 0
      : (used.api + used.redis + (decided * sale.cpuUs.other.persist) / 1e6) / sale.sharedCores;
  const busy = Math.min(1, Math.max(used.api / sale.apiCores, used.redis / sale.redisCores, shared));
  return Math.max(second - 1 + busy, Math.min(second, sale.withinSeconds));
}
