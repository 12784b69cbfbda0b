import type { Log } from './log.js';

/** How often the same error is logged. Every queue and every worker reports an error of the connection they share. */
const LOG_EVERY_MS = 10_000;
const REASONS_KEPT = 100;

/** Returns the function that logs errors of queues, the same reason once in ten seconds. */
export function queueErrorLog(log: Log): (queue: string, error: Error) => void {
  const loggedAt = new Map<string, number>();
  return (queue, { message }) => {
    const now = performance.now();
    if (now - (loggedAt.get(message) ?? Number.NEGATIVE_INFINITY) < LOG_EVERY_MS) return;
    if (loggedAt.size >= REASONS_KEPT) loggedAt.clear();
    loggedAt.set(message, now);
    log.warn({ queue, reason: message }, 'a queue reported an error');
  };
}
