import type { Redis } from 'ioredis';
import { keys } from './keys.js';

const KEPT_MS = 60_000;
const LOOK_EVERY_MS = 50;

/** Where a job leaves its result for the request that waits for it. */
export class JobResults {
  constructor(readonly redis: Redis) {}

  /** The first result stays: a job that was taken for dead runs again, and finds what the first run has done. */
  async put(id: string, result: unknown): Promise<void> {
    await this.redis.set(keys.answer(id), JSON.stringify(result), 'PX', KEPT_MS, 'NX');
  }

  /** null when there is none within `waitMs`. */
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
