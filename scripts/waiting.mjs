// Waits with a limit, and clears its timers.
import { setTimeout as pause } from 'node:timers/promises';

/**
 * Whether the promise settles within the time.
 * @param {Promise<unknown>} promise
 * @param {number} limitMs
 * @returns {Promise<boolean>}
 */
export async function settlesWithin(promise, limitMs) {
  /** @type {NodeJS.Timeout | undefined} */
  let timer;
  const tooLate = new Promise((resolve) => {
    timer = setTimeout(() => resolve(false), limitMs);
  });
  const settled = promise.then(
    () => true,
    () => true,
  );
  const inTime = await Promise.race([settled, tooLate]);
  clearTimeout(timer);
  return inTime === true;
}

/**
 * Calls a function repeatedly until the result is not false; returns false when the time is over.
 * @template T
 * @param {() => T | Promise<T>} ask
 * @param {{ limitMs: number, everyMs?: number }} options
 * @returns {Promise<T | false>}
 */
export async function until(ask, { limitMs, everyMs = 50 }) {
  const end = Date.now() + limitMs;
  for (;;) {
    const answer = await ask();
    if (answer !== false) return answer;
    if (Date.now() >= end) return false;
    await pause(everyMs);
  }
}

export { pause };
