// Measures CPU and memory of a process by the kernel's accounting; medians; rounded numbers.
import { readdirSync, readFileSync } from 'node:fs';

/**
 * User and system time of all threads of a process, µs. `schedstat` counts in nanoseconds what `stat` counts in ticks.
 * @param {number} pid
 */
export function cpuMicros(pid) {
  let nanos = 0n;
  for (const task of readdirSync(`/proc/${pid}/task`)) {
    try {
      nanos += BigInt(String(readFileSync(`/proc/${pid}/task/${task}/schedstat`)).split(' ')[0] ?? 0);
    } catch {
      // The thread has ended. Its time is lost, and is always little.
    }
  }
  return Number(nanos / 1000n);
}

/** `stat` counts in hundredths of a second. */
const TICK_MICROS = 10_000;

/**
 * CPU of a process and its children: an engine may have one for each connection, or fork to rewrite a file. Children
 * that have ended count too, in hundredths of a second.
 * @param {number} pid
 */
export function cpuMicrosWithChildren(pid) {
  const [endedUser, endedSystem] = statOf(pid).slice(13, 15);
  let micros = cpuMicros(pid) + (Number(endedUser) + Number(endedSystem)) * TICK_MICROS;
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    try {
      if (Number(statOf(Number(name))[1]) === pid) micros += cpuMicros(Number(name));
    } catch {
      // The process has ended meanwhile.
    }
  }
  return micros;
}

/** The fields of /proc/<pid>/stat behind the name: state, parent, … @param {number} pid @returns {string[]} */
function statOf(pid) {
  return (
    String(readFileSync(`/proc/${pid}/stat`))
      .split(') ')
      .at(-1)
      ?.split(' ') ?? []
  );
}

/** @typedef {Record<'api' | 'redis' | 'worker' | 'postgres', number>} Cpu of each part of an environment, µs */

/**
 * CPU of each part of an environment since its start.
 * @param {import('./environment.mjs').Environment} environment
 * @returns {Cpu}
 */
export function cpuOf(environment) {
  return {
    api: cpuMicros(environment.api.pid),
    redis: cpuMicrosWithChildren(environment.redisPid),
    worker: cpuMicros(environment.worker.pid),
    postgres: cpuMicrosWithChildren(environment.postgresPid),
  };
}

/**
 * CPU of each part of an environment since an earlier moment.
 * @param {import('./environment.mjs').Environment} environment
 * @param {Cpu} before
 * @param {number} [share] the divisor, for instance the number of requests
 * @returns {Cpu & { total: number }}
 */
export function cpuSince(environment, before, share = 1) {
  const now = cpuOf(environment);
  const each = (/** @type {keyof Cpu} */ part) => (now[part] - before[part]) / share;
  const [api, redis, worker, postgres] = [each('api'), each('redis'), each('worker'), each('postgres')];
  return { api, redis, worker, postgres, total: api + redis + worker + postgres };
}

/** @param {number} pid @returns resident memory, bytes */
export function residentBytes(pid) {
  return Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) * 1024;
}

/** @param {readonly number[]} values */
export function median(values) {
  return quantile(values, 0.5);
}

/** @param {readonly number[]} values @param {number} q */
export function quantile(values, q) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] ?? Number.NaN;
}

/** @param {readonly number[]} values */
export const last = (values) => values.at(-1) ?? Number.NaN;

/** @param {number} value @param {number} [digits] */
export const round = (value, digits = 1) => Math.round(value * 10 ** digits) / 10 ** digits;
