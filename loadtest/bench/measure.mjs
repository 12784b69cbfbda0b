// CPU and memory of a process, from the kernel's own accounting; medians; numbers for people.
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
      // The thread has ended; what it used is lost, and it is never much.
    }
  }
  return Number(nanos / 1000n);
}

/**
 * Of a process and its children: an engine that has one for each connection. What a child used that has ended since is lost.
 * @param {number} pid
 */
export function cpuMicrosWithChildren(pid) {
  let micros = cpuMicros(pid);
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const [, parent] =
        String(readFileSync(`/proc/${name}/stat`))
          .split(') ')
          .at(-1)
          ?.split(' ') ?? [];
      if (Number(parent) === pid) micros += cpuMicros(Number(name));
    } catch {
      // It has ended meanwhile.
    }
  }
  return micros;
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

/** @param {number} value @param {number} [digits] */
export const round = (value, digits = 1) => Math.round(value * 10 ** digits) / 10 ** digits;
