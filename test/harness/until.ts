import { setTimeout as sleep } from 'node:timers/promises';

/**
 * So long that no busy machine reaches it; what fails for another reason fails with its name, not with Jest's time-out.
 */
export const LIMIT_MS = 60_000;

/** Between two looks at a condition: a share of the wait so far, so that a long wait costs few looks. */
const PAUSE = { share: 0.1, leastMs: 10, mostMs: 50 };

/**
 * Waits until a condition holds, checking it often, and fails with its name after a limit. Tests wait with this only.
 * @returns the truthy value of the condition
 */
export async function until<Value>(
  what: string,
  condition: () => Promise<Value> | Value,
  limitMs = LIMIT_MS,
): Promise<Exclude<Value, false | null | undefined | 0 | ''>> {
  const began = performance.now();
  const deadline = began + limitMs;
  const late = new Error(`it did not come true within ${limitMs} ms that ${what}`);
  for (;;) {
    // A condition that never settles would end in the time-out of Jest, without the name of what is awaited.
    const value = await within(deadline - performance.now() + GRACE_MS, late, condition);
    if (value) return value as Exclude<Value, false | null | undefined | 0 | ''>;
    if (performance.now() > deadline) throw late;
    const pauseMs = PAUSE.share * (performance.now() - began);
    await sleep(Math.min(Math.max(pauseMs, PAUSE.leastMs), PAUSE.mostMs));
  }
}

/** For a last look that began before the limit. */
const GRACE_MS = 10_000;

async function within<Value>(limitMs: number, late: Error, work: () => Promise<Value> | Value): Promise<Value> {
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(late), limitMs);
  });
  try {
    return await Promise.race([work(), limit]);
  } finally {
    clearTimeout(timer);
  }
}
