import { setTimeout as sleep } from 'node:timers/promises';

/** Waits until work has ended, for at most `limitMs`. Then the work goes on. An error of it is ignored. */
export async function settledWithin(work: Promise<unknown> | null, limitMs: number): Promise<void> {
  await Promise.race([work?.catch(() => {}), sleep(limitMs, undefined, { ref: false })]);
}
