import type { Redis } from 'ioredis';
import { keys } from './keys.js';

const FRESH_MS = 15_000;

/** What every process has counted, as prom-client's JSON, so that one scrape of any API shows all of them. */
export class MetricsStore {
  constructor(readonly redis: Redis) {}

  /** @param nowMs by Redis, so that processes whose clocks differ do not take each other for dead */
  async post(process: string, metrics: object[], nowMs: number): Promise<void> {
    await this.redis.hset(keys.metrics, process, JSON.stringify({ at: nowMs, metrics }));
  }

  /** Metrics of the other processes; what is older than a few seconds belongs to a dead one and is removed. */
  async others(process: string, nowMs: number): Promise<object[][]> {
    const posts = await this.redis.hgetall(keys.metrics);
    const fresh: object[][] = [];
    for (const [name, text] of Object.entries(posts)) {
      const post = JSON.parse(text) as { at: number; metrics: object[] };
      if (Math.abs(nowMs - post.at) > FRESH_MS) await this.redis.hdel(keys.metrics, name);
      else if (name !== process) fresh.push(post.metrics);
    }
    return fresh;
  }

  async remove(process: string): Promise<void> {
    await this.redis.hdel(keys.metrics, process);
  }
}
