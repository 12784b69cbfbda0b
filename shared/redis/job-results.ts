import type { Redis } from 'ioredis';
import { keys } from './keys.js';

const KEPT_MS = 60_000;
const LOOK_EVERY_MS = 50;

/** Results of jobs, for the requests that wait for them. */
export class JobResults {
  constructor(readonly redis: Redis) {}

  /**
   * Stores a result unless there is one: a job that was wrongly taken for dead runs again, and the first result counts.
   */
  async put(id: string, result: unknown): Promise<void> {
    await this.redis.set(keys.answer(id), JSON.stringify(result), 'PX', KEPT_MS, 'NX');
  }

  /** Waits for a result; null = none within `waitMs`. */
  async wait(id: string, waitMs: number): Promise<unknown> {
    const deadline = performance.now() + waitMs;
    for (;;) {
      const text = await this.redis.get(keys.answer(id));
      if (text !== null) return JSON.parse(text);
      if (performance.now() >= deadline) return null;
      await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
    }
  }
}
