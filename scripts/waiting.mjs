// Nothing here waits without a limit, and no timer outlives what it waited for.
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
 * Asks again and again until the answer is not false; false when the time is over.
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
