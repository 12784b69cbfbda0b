import type { Redis } from 'ioredis';
import { runEvery } from '../observability/shared-interval.js';

const SAMPLE_EVERY_MS = 1_000;

/**
 * Reads the clock of Redis without a round trip: samples TIME once a second and adds this process's monotonic clock, so
 * that a jump of the machine's wall clock does not affect signed times.
 */
export class RedisClock {
  #offsetMs: number | null = null;
  /** How much later than the clock of Redis `nowMs` can be, because the round trip of the sample took time. */
  #leadMs = 0;
  /** When the sample that Redis has not answered began, by the monotonic clock; null = there is none. */
  #askedAtMs: number | null = null;
  #end: (() => void) | null = null;

  constructor(readonly redis: Redis) {}

  start(): void {
    const sample = () => {
      this.sample().catch(() => {
        // During an outage of Redis, the last offset stays valid because the monotonic clock continues.
      });
    };
    sample();
    this.#end = runEvery(SAMPLE_EVERY_MS, sample);
  }

  stop(): void {
    this.#end?.();
  }

  async sample(): Promise<void> {
    const before = performance.now();
    this.#askedAtMs ??= before;
    const [seconds, micros] = await this.redis.time();
    const after = performance.now();
    this.#askedAtMs = null;
    this.#offsetMs = Number(seconds) * 1000 + Number(micros) / 1000 - (before + after) / 2;
    this.#leadMs = (after - before) / 2;
  }

  /** Milliseconds since 1970 by the clock of Redis, or by this machine until the first reply of Redis. */
  nowMs(): number {
    return this.#offsetMs === null ? Date.now() : performance.now() + this.#offsetMs;
  }

  /** How long the last sample took, or has taken so far, in ms. */
  get roundTripMs(): number {
    return Math.max(2 * this.#leadMs, this.#askedAtMs === null ? 0 : performance.now() - this.#askedAtMs);
  }

  /**
   * A time shortly before `nowMs` that the clock of Redis has passed. A script never reads an earlier time afterwards,
   * so what starts at this time has started.
   */
  passedMs(): number {
    return this.nowMs() - this.#leadMs;
  }
}
