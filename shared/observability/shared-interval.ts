/**
 * Whole milliseconds until the next multiple of an interval, by the monotonic clock of this process. Loops that use it
 * wake the process at the same moments and share round trips. In an idle process, waking up costs more than the work.
 */
export function untilNext(everyMs: number): number {
  const leftMs = Math.ceil(everyMs - (performance.now() % everyMs));
  // A timer may fire a millisecond early. Then this multiple has been served.
  return leftMs > 1 ? leftMs : leftMs + everyMs;
}

/**
 * Calls `run` at each multiple of an interval (`untilNext`). It does not keep the process alive.
 * @returns ends it
 */
export function runEvery(everyMs: number, run: () => void): () => void {
  let timer: NodeJS.Timeout;
  const wait = () => {
    timer = setTimeout(() => {
      wait();
      run();
    }, untilNext(everyMs)).unref();
  };
  wait();
  return () => clearTimeout(timer);
}
