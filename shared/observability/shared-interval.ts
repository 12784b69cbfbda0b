/**
 * Time until the next multiple of an interval, ms, by the monotonic clock of this process. Loops that wait for it wake the
 * process together and share round trips: an idle process pays for each wake-up more than for what it does.
 */
export function untilNext(everyMs: number): number {
  return everyMs - (performance.now() % everyMs);
}
