// The option `--redis` of `npm test`: on which kind of Redis the tests run.
import { Problem } from './problem.mjs';

/** Kinds of Redis that a run of the suite can have, the default first. */
export const REDIS_KINDS = /** @type {const} */ (['server', 'cluster']);

/** @typedef {(typeof REDIS_KINDS)[number]} RedisKind */

/**
 * Takes `--redis <kind>` or `--redis=<kind>` out of the arguments, since Jest does not know it.
 * @param {readonly string[]} args
 * @returns {{ redis: RedisKind, args: string[] }}
 * @throws {Problem} when the kind is missing or unknown
 */
export function takeRedisOption(args) {
  /** @type {RedisKind} */
  let redis = REDIS_KINDS[0];
  /** @type {string[]} */
  const others = [];
  for (let i = 0; i < args.length; i += 1) {
    const arg = String(args[i]);
    if (arg !== '--redis' && !arg.startsWith('--redis=')) {
      others.push(arg);
      continue;
    }
    if (arg === '--redis') i += 1;
    redis = kindOf(arg === '--redis' ? args[i] : arg.slice('--redis='.length));
  }
  return { redis, args: others };
}

/**
 * @param {string | undefined} value
 * @returns {RedisKind}
 */
function kindOf(value) {
  const kind = REDIS_KINDS.find((known) => known === value);
  if (kind !== undefined) return kind;
  const remedy =
    'Use --redis server (one server for each test file, the default) or --redis cluster (three primaries and three replicas).';
  const missing = value === undefined || value === '' || value.startsWith('-');
  throw new Problem(missing ? '--redis needs a value.' : `--redis ${value} is unknown.`, { remedy });
}
