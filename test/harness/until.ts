import { setTimeout as sleep } from 'node:timers/promises';

/**
 * So long that no busy machine reaches it; what fails for another reason fails with its name, not with Jest's time-out.
 */
const LIMIT_MS = 60_000;

/**
 * Waits until a condition holds, checking it often, and fails with its name after a limit. Tests wait with this only.
 * @returns the truthy value of the condition
 */
export async function until<Value>(
  what: string,
  condition: () => Promise<Value> | Value,
  limitMs = LIMIT_MS,
): Promise<Exclude<Value, false | null | undefined | 0 | ''>> {
  const deadline = performance.now() + limitMs;
  for (;;) {
    const value = await condition();
    if (value) return value as Exclude<Value, false | null | undefined | 0 | ''>;
    if (performance.now() > deadline) throw new Error(`it did not come true within ${limitMs} ms that ${what}`);
    await sleep(10);
  }
}
