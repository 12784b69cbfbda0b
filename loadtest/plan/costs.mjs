// What each part costs: the defaults, and files of `npm run plan -- --measure`.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { messageOf, Problem } from '../../scripts/problem.mjs';

/**
 * CPU of each part, µs: `checkout` takes a unit, `place` joins the line, `refusal` is sold out, `poll` reads a place,
 * `rejection` is a 503 before any work, `position` is one position frame to a socket.
 * @typedef {Record<'api' | 'redis' | 'worker' | 'postgres', number>} Cpu
 * @typedef {'checkout' | 'place' | 'refusal' | 'poll' | 'rejection' | 'position'} Kind
 * @typedef {{ source: string, date: string, machine: string, load: string, node: string, revision: string,
 *   cpu_us: Record<Kind, Cpu>, persisted_per_second: number, postgres_rows_per_second: number, bytes: Bytes }} Costs
 *   persisted_per_second: journal entries of one shard that the worker with its lease persists
 * @typedef {Record<'redis_start' | 'redis_reservation' | 'redis_place' | 'redis_record' | 'redis_journal_entry' |
 *   'redis_events' | 'postgres_reservation' | 'postgres_place' | 'postgres_wal' | 'api_process' | 'api_socket' |
 *   'worker_process' | 'redis_in' | 'redis_out' | 'checkout_in' | 'checkout_out' | 'poll_in' | 'poll_out', number>}
 *   Bytes
 */

const { 'checkout-cpu': record } = JSON.parse(readFileSync(join(import.meta.dirname, '../bench/record.json'), 'utf8'));
const CHECKOUT = {
  api: Math.round(record.api_us),
  redis: Math.round(record.redis_us),
  worker: Math.round(record.worker_us),
  postgres: Math.round(record.postgres_us),
};

/**
 * The last record of the benchmark checkout-cpu, and figures of docs/performance.md. Those of Redis for a place, and of
 * a refusal and a poll, are older than decisions in batches, so they are too high rather than too low.
 * @type {Costs}
 */
export const DEFAULT_COSTS = {
  source: 'docs/performance.md',
  date: record.date,
  machine: record.machine,
  load: record.load,
  node: record.node,
  revision: record.revision,
  cpu_us: {
    checkout: CHECKOUT,
    place: { ...CHECKOUT, redis: 62 },
    refusal: { api: 61, redis: 29, worker: 0, postgres: 0 },
    poll: { api: 60, redis: 22, worker: 0, postgres: 0 },
    rejection: { api: 30, redis: 0, worker: 0, postgres: 0 },
    position: { api: 50, redis: 0, worker: 0, postgres: 0 },
  },
  persisted_per_second: 8_500,
  postgres_rows_per_second: 20_000,
  bytes: {
    redis_start: 3_500_000,
    redis_reservation: 493,
    redis_place: 285,
    redis_record: 302,
    redis_journal_entry: 320,
    redis_events: 80_000_000,
    postgres_reservation: 671,
    postgres_place: 350,
    postgres_wal: 1_008,
    api_process: 200_000_000,
    api_socket: 10_257,
    worker_process: 160_000_000,
    redis_in: 1_207,
    redis_out: 251,
    checkout_in: 360,
    checkout_out: 1_279,
    poll_in: 199,
    poll_out: 1_174,
  },
};

/**
 * Reads a file of costs. It must have every field of the defaults.
 * @param {string} path
 * @returns {Costs}
 * @throws Problem when it cannot be read, or a figure is missing or wrong
 */
export function readCosts(path) {
  const remedy = 'Make one on the machine to be planned for: npm run plan -- --measure --write costs.json';
  /** @type {unknown} */
  let read;
  try {
    read = JSON.parse(readFileSync(path, 'utf8'));
  } catch (error) {
    throw new Problem(`${path} is no file of costs: ${messageOf(error)}`, { remedy, exitCode: 2 });
  }
  const wrong = firstDifference(DEFAULT_COSTS, read, '');
  if (wrong !== null) throw new Problem(`${path} is no file of costs: ${wrong}.`, { remedy, exitCode: 2 });
  return /** @type {Costs} */ (read);
}

/**
 * What a value lacks that the template has; null = nothing.
 * @param {unknown} template
 * @param {unknown} value
 * @param {string} path
 * @returns {string | null}
 */
function firstDifference(template, value, path) {
  if (typeof template === 'number') {
    const fine = typeof value === 'number' && Number.isFinite(value) && value >= 0;
    return fine ? null : `${path} must be a number from 0`;
  }
  if (typeof template === 'string') return typeof value === 'string' ? null : `${path} must be a text`;
  if (typeof value !== 'object' || value === null) return `${path || 'the file'} must be an object`;
  for (const [name, inner] of Object.entries(/** @type {object} */ (template))) {
    const found = firstDifference(
      inner,
      /** @type {Record<string, unknown>} */ (value)[name],
      `${path}${path && '.'}${name}`,
    );
    if (found !== null) return found;
  }
  return null;
}
