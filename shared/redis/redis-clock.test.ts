import { expect, test } from '@jest/globals';
import type { Redis } from 'ioredis';
import { RedisClock } from './redis-clock.js';

const STARTED_MS = 1_700_000_000_000;
const ROUND_TRIP_MS = 50;
/** TIME has whole microseconds. */
const PRECISION_MS = 0.01;

/** A Redis that reads its clock at the start or at the end of a long round trip. */
function slowRedis(reads: 'first' | 'last') {
  const nowMs = () => STARTED_MS + performance.now();
  const read = () => [Math.floor(nowMs() / 1000), Math.floor((nowMs() % 1000) * 1000)];
  const time = async () => {
    const began = performance.now();
    const first = read();
    while (performance.now() < began + ROUND_TRIP_MS);
    return reads === 'first' ? first : read();
  };
  return { nowMs, redis: { time } as unknown as Redis };
}

test.each(['first', 'last'] as const)(
  'RedisClock returns a time that Redis has passed, and that is at most a round trip old, when Redis reads its clock %s',
  async (reads) => {
    const { nowMs, redis } = slowRedis(reads);
    const clock = new RedisClock(redis);
    const began = performance.now();
    await clock.sample();
    const roundTripMs = performance.now() - began;
    const before = nowMs();
    const passed = clock.passedMs();
    expect(passed).toBeLessThanOrEqual(nowMs() + PRECISION_MS);
    expect(passed).toBeGreaterThanOrEqual(before - roundTripMs - PRECISION_MS);
  },
);
