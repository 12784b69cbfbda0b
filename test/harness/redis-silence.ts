import type { Redis } from 'ioredis';
import { atEnd } from './cleanup.js';

const ASK_EVERY_MS = 50;

/** Measures how long a Redis leaves a command without a reply: on a busy machine, a flush to disk can take seconds. */
export class RedisSilence {
  #longestMs = 0;
  #askedAt: number | null = null;

  /** @param redis a connection of the test, which stays its caller's */
  constructor(redis: Redis) {
    const timer = setInterval(async () => {
      if (this.#askedAt !== null) return;
      this.#askedAt = performance.now();
      await redis.ping().catch(() => null);
      this.#longestMs = this.longestMs;
      this.#askedAt = null;
    }, ASK_EVERY_MS).unref();
    atEnd('a watch of Redis', () => clearInterval(timer));
  }

  get longestMs(): number {
    return Math.max(this.#longestMs, this.#askedAt === null ? 0 : performance.now() - this.#askedAt);
  }
}
