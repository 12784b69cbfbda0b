// Counts requests, responses and promises, for each second and each kind of request, for both generators.

/** The report has the texts of at most this number of faults; all are counted. */
const FAULT_TEXTS = 20;

/**
 * @typedef {{ sent: number, answered: number, statuses: Record<string, number>, latencies: number[] }} Second
 * @typedef {{ sent: number, answered: number, broken: Record<string, number>, outcomes: Record<string, number>,
 *   latencies: number[] }} Kind
 * @typedef {{ user: string, reservation: string }} Promised
 */

/**
 * A response in short: its HTTP status, and the shopper's status or the error code.
 * @param {number} status
 * @param {any} body
 * @returns {string}
 */
export function outcomeOf(status, body) {
  const word = body?.data?.status ?? body?.code;
  return typeof word === 'string' ? `${status} ${word}` : String(status);
}

export class Tally {
  #began = performance.now();
  /** @type {Second[]} */
  seconds = [];
  /** @type {Map<string, Kind>} */
  kinds = new Map();
  /** Reservations that were returned to shoppers, by product. @type {Map<string, Promised[]>} */
  promises = new Map();
  /** @type {string[]} */
  faults = [];
  faultCount = 0;
  departures = 0;
  onDeparture = () => {};

  /** Marks the beginning of the load. */
  begin() {
    this.#began = performance.now();
    this.seconds = [];
  }

  /** @returns {number} */
  elapsedMs() {
    return performance.now() - this.#began;
  }

  /** Counts a user who is done. */
  departed() {
    this.departures += 1;
    this.onDeparture();
  }

  /** @param {string} name of the request */
  sent(name) {
    this.#second().sent += 1;
    this.#kind(name).sent += 1;
  }

  /**
   * @param {string} name
   * @param {string} outcome as `outcomeOf` has it
   * @param {number} ms
   */
  answered(name, outcome, ms) {
    const second = this.#second();
    const status = outcome.slice(0, 3);
    second.answered += 1;
    second.statuses[status] = (second.statuses[status] ?? 0) + 1;
    second.latencies.push(ms);
    const kind = this.#kind(name);
    kind.answered += 1;
    kind.outcomes[outcome] = (kind.outcomes[outcome] ?? 0) + 1;
    kind.latencies.push(ms);
  }

  /** Counts a request that will get no response. @param {string} name @param {string} why */
  broken(name, why) {
    const { broken } = this.#kind(name);
    broken[why] = (broken[why] ?? 0) + 1;
  }

  /** @param {string} product @param {string} user @param {string} reservation */
  promised(product, user, reservation) {
    const promises = this.promises.get(product) ?? [];
    promises.push({ user, reservation });
    this.promises.set(product, promises);
  }

  /** Records a fault that fails the run, whatever the ledger reports. @param {string} what */
  fault(what) {
    this.faultCount += 1;
    if (this.faults.length < FAULT_TEXTS) this.faults.push(what);
  }

  /** @returns {{ sent: number, answered: number }} */
  get total() {
    const kinds = [...this.kinds.values()];
    const sum = (/** @type {'sent' | 'answered'} */ what) => kinds.reduce((all, kind) => all + kind[what], 0);
    return { sent: sum('sent'), answered: sum('answered') };
  }

  /** How often a kind of request had this outcome. @param {string} name @param {string} outcome @returns {number} */
  count(name, outcome) {
    return this.kinds.get(name)?.outcomes[outcome] ?? 0;
  }

  #second() {
    const at = Math.max(0, Math.floor(this.elapsedMs() / 1000));
    while (this.seconds.length <= at) this.seconds.push({ sent: 0, answered: 0, statuses: {}, latencies: [] });
    return /** @type {Second} */ (this.seconds[at]);
  }

  /** @param {string} name @returns {Kind} */
  #kind(name) {
    let kind = this.kinds.get(name);
    if (!kind) {
      kind = { sent: 0, answered: 0, broken: {}, outcomes: {}, latencies: [] };
      this.kinds.set(name, kind);
    }
    return kind;
  }
}

/** @param {readonly number[]} values @param {number} share @returns {number | null} null of nothing */
export function quantile(values, share) {
  if (values.length === 0) return null;
  const sorted = Float64Array.from(values).sort();
  return /** @type {number} */ (sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]);
}
