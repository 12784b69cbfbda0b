import { expect, test } from '@jest/globals';
import { Problem } from '../../../shared/errors/catalogue.js';
import { EngineUnavailable } from '../../../shared/errors/faults.js';
import type { RedisGate } from '../../../shared/redis/gate.js';
import { startTestRedis } from '../../../test/harness/engines.js';
import { keyNames } from '../../../test/harness/key-names.js';
import { oneShard, openGate } from '../../../test/harness/one-shard.js';
import { connectToRedis } from '../../../test/harness/sale.js';
import { policyField, Quota, rateLimited } from './quotas.js';

test('admits the calls of a caller up to the limit, returns the remaining quota, and then `Retry-After`', async () => {
  const redis = await connectToRedis((await startTestRedis()).url);
  const quota = new Quota(oneShard(redis), 'poll', 2, 60);
  expect(await quota.take('ann')).toEqual(['RateLimit-Policy', '"poll";q=2;w=60', 'RateLimit', '"poll";r=1;t=60']);
  expect(await quota.take('ann')).toEqual(['RateLimit-Policy', '"poll";q=2;w=60', 'RateLimit', '"poll";r=0;t=60']);
  const refusal = await quota.take('ann').catch((error: unknown) => error);
  expect(refusal).toBeInstanceOf(Problem);
  expect(refusal).toMatchObject({
    code: 'rate_limited',
    status: 429,
    extras: { members: { policy: 'poll' }, retryAfterSeconds: 60 },
  });
  expect((await quota.take('bob')).at(-1)).toBe('"poll";r=1;t=60');
});

test('counts over all processes', async () => {
  const engine = await startTestRedis();
  const [one, other] = [await connectToRedis(engine.url), await connectToRedis(engine.url)].map(
    (redis) => new Quota(oneShard(redis), 'poll', 3, 60),
  );
  for (const quota of [one, other, one]) await quota?.take('ann');
  await expect(other?.take('ann')).rejects.toMatchObject({ code: 'rate_limited' });
});

test('distinguishes a failed store from an exceeded limit, and admits no call', async () => {
  const engine = await startTestRedis();
  const quota = new Quota(oneShard(await connectToRedis(engine.url)), 'poll', 2, 60);
  await engine.stop();
  await expect(quota.take('ann')).rejects.toThrow(EngineUnavailable);
});

test('goes on by itself while Redis is away where it is insured, with the same limit', async () => {
  const engine = await startTestRedis();
  const redis = await connectToRedis(engine.url);
  const insured = (gate: RedisGate) => new Quota(oneShard(redis, gate), 'token', 2, 60, () => {}, 'token', true);
  const closed = { guard: () => Promise.reject(new EngineUnavailable('redis', 'away')) } as unknown as RedisGate;
  const [behindGate, direct] = [insured(closed), insured(openGate)];
  await direct.take('ann');
  await engine.stop();
  for (const quota of [behindGate, direct]) {
    expect((await quota.takeCounted('ann')).count).toBe(1);
    expect((await quota.takeCounted('ann')).count).toBe(2);
    await expect(quota.take('ann')).rejects.toMatchObject({ code: 'rate_limited' });
    expect(quota.waitOf('ann')).toBeGreaterThan(0);
    expect(quota.waitOf('bob')).toBe(0);
  }
});

test('rejects no caller for longer than a window, although a clock went back', async () => {
  const engine = await startTestRedis();
  const redis = await connectToRedis(engine.url);
  const [one, other] = [new Quota(oneShard(redis), 'poll', 1, 60), new Quota(oneShard(redis), 'poll', 1, 60)];
  await one.take('ann');
  await expect(one.take('ann')).rejects.toMatchObject({ code: 'rate_limited' });
  // The count in Redis expires at a time that is now an hour away …
  const [key] = await keyNames(redis, '*ann*');
  await redis.pexpire(String(key), 3_600_000);
  await other.take('ann');
  // … and so does the memory of a process whose own clock went back.
  await expect(other.take('ann')).rejects.toMatchObject({ code: 'rate_limited' });
  const { now } = Date;
  Date.now = () => now() - 3_600_000;
  try {
    await other.take('ann');
  } finally {
    Date.now = now;
  }
});

test('writes policies and refusals as the draft has them, in whole seconds and never zero', () => {
  expect(policyField('device', 20, 1)).toBe('"device";q=20;w=1');
  for (const [retryMs, seconds] of [
    [0, 1],
    [1, 1],
    [1_000, 1],
    [1_001, 2],
    [59_999, 60],
  ] as const) {
    expect(rateLimited('device', 20, 1, retryMs).extras).toEqual({
      members: { policy: 'device' },
      retryAfterSeconds: seconds,
      headers: { 'RateLimit-Policy': '"device";q=20;w=1', RateLimit: `"device";r=0;t=${seconds}` },
    });
  }
});
