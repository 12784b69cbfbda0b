import { setTimeout as sleep } from 'node:timers/promises';

/** Runs `run` again and again, with a pause after each, until the signal is aborted. `run` must not throw. */
export async function every(pauseMs: number, signal: AbortSignal, run: () => Promise<void>): Promise<void> {
  while (!signal.aborted) {
    await run();
    await sleep(pauseMs, undefined, { signal }).catch(() => {});
  }
}
