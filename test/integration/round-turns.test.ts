import { afterEach, describe, expect, it } from '@jest/globals';
import type { ProductId } from '../../shared/domain/ids.js';
import { keys } from '../../shared/redis/keys.js';
import { RoundTurns } from '../../worker/rounds/round-turns.js';
import { startTestRedis } from '../harness/engines.js';
import { until } from '../harness/until.js';

const engine = await startTestRedis();
const redis = engine.client;
afterEach(() => redis.config('SET', 'maxmemory', '0'));

describe('RoundTurns', () => {
  const workers = Array.from({ length: 5 }, () => new RoundTurns(redis));
  const [first, second] = workers as [RoundTurns, RoundTurns];
  const products = ['a', 'b', 'c', 'd', 'e'] as ProductId[];
  const [one, two, three, four] = products as [ProductId, ProductId, ProductId, ProductId];

  it('gives a turn to one of many, and each campaign has turns of its own', async () => {
    const taken = await Promise.all(workers.map((turns) => turns.take(one)));
    expect(taken.filter(Boolean)).toHaveLength(1);
    expect(await first.take(two)).toBe(true);
  });

  it('lasts for several rounds, and for less than a second', async () => {
    expect(await first.take(three)).toBe(true);
    expect(await second.take(three)).toBe(false);
    expect(await redis.pttl(keys.round(three))).toBeLessThanOrEqual(800);
    await redis.config('RESETSTAT');
    expect(await first.take(three)).toBe(true);
    expect(await redis.info('commandstats')).not.toContain('cmdstat_set:');
    await until('the second takes over', () => second.take(three));
  });

  it('does not wait for a turn that a clock which went back has made long', async () => {
    await redis.set(keys.round(four), '1', 'PX', 3_600_000);
    expect(await first.take(four)).toBe(false);
    expect(await first.take(four)).toBe(true);
  });

  it('gives turns to every worker while Redis is full', async () => {
    const full = 'full' as ProductId;
    await redis.config('SET', 'maxmemory', '1');
    expect([await first.take(full), await second.take(full)]).toEqual([true, true]);
  });
});
