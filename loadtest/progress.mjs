// Prints a line a second while the load runs.
import { quantile } from './tally.mjs';

/**
 * @param {import('./tally.mjs').Tally} tally
 * @param {(text: string) => void} say
 * @param {() => Promise<void>} look called once a second as well
 * @returns {() => Promise<void>} ends it
 */
export function progress(tally, say, look) {
  let printed = 0;
  let looking = Promise.resolve();
  const tick = () => {
    // Prints the second that has just ended, and those that a busy machine has missed.
    const full = Math.floor(tally.elapsedMs() / 1000);
    for (; printed < full; printed += 1) say(lineOf(tally, printed));
    looking = looking.then(look);
  };
  const timer = setInterval(tick, 1000);
  return async () => {
    clearInterval(timer);
    for (; printed < tally.seconds.length; printed += 1) say(lineOf(tally, printed));
    await looking;
    await look();
  };
}

/** @param {import('./tally.mjs').Tally} tally @param {number} at */
function lineOf(tally, at) {
  const { sent, answered, statuses, latencies } = tally.seconds[at] ?? {
    sent: 0,
    answered: 0,
    statuses: {},
    latencies: [],
  };
  const words = Object.entries(statuses)
    .sort()
    .map(([status, count]) => `${status}: ${count.toLocaleString('en')}`);
  const ms = (/** @type {number} */ share) => {
    const value = quantile(latencies, share);
    return value === null ? '–' : `${value < 10 ? value.toFixed(1) : Math.round(value)} ms`;
  };
  return [
    `${String(at + 1).padStart(4)} s`,
    `sent ${sent.toLocaleString('en').padStart(6)}`,
    `answered ${answered.toLocaleString('en').padStart(6)}`,
    `p50 ${ms(0.5)}, p99 ${ms(0.99)}`.padEnd(24),
    words.join('  '),
  ]
    .join('  ')
    .trimEnd();
}
