import type { Redis } from 'ioredis';
import { keys } from './keys.js';

const FRESH_MS = 15_000;

/** Metrics of every process, as prom-client's JSON, so that one scrape of any API process returns all of them. */
export class MetricsStore {
  constructor(readonly redis: Redis) {}

  /** Stores the metrics of a process. @param nowMs by the clock of Redis, so that differing clocks do not matter */
  async post(process: string, metrics: object[], nowMs: number): Promise<void> {
    await this.redis.hset(keys.metrics, process, JSON.stringify({ at: nowMs, metrics }));
  }

  /**
   * Returns process → metrics of the other processes, and removes those of dead processes, which are older than
   * `FRESH_MS`.
   */
  async others(process: string, nowMs: number): Promise<ReadonlyMap<string, object[]>> {
    const posts = await this.redis.hgetall(keys.metrics);
    const fresh = new Map<string, object[]>();
    for (const [name, text] of Object.entries(posts)) {
      const post = JSON.parse(text) as { at: number; metrics: object[] };
      if (Math.abs(nowMs - post.at) > FRESH_MS) await this.redis.hdel(keys.metrics, name);
      else if (name !== process) fresh.set(name, post.metrics);
    }
    return fresh;
  }

  async remove(process: string): Promise<void> {
    await this.redis.hdel(keys.metrics, process);
  }
}
