/**
 * Milliseconds until the next multiple of an interval, by the monotonic clock of this process. Loops that use it wake
 * the process at the same moments and share round trips. In an idle process, waking up costs more than the work.
 */
export function untilNext(everyMs: number): number {
  return everyMs - (performance.now() % everyMs);
}
