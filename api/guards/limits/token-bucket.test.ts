import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { projectRoot } from '../../../shared/config/project-root.js';
import { shardPrefix } from '../../../shared/domain/shards.js';
import { EngineUnavailable } from '../../../shared/errors/faults.js';
import { keys } from '../../../shared/redis/keys.js';
import { ScriptRunner } from '../../../shared/redis/script-runner.js';
import { luaWithClockIn } from '../../../test/harness/frozen-clock.js';
import { ON_CLUSTER } from '../../../test/harness/redis-mode.js';
import { startSale } from '../../../test/harness/sale.js';
import { until } from '../../../test/harness/until.js';
import { TokenBucket, type TokenBucketOptions } from './token-bucket.js';

const sale = await startSale();
const START = Date.now();

const bucketOn = (scripts: Pick<ScriptRunner, 'run'>, options: Partial<TokenBucketOptions> = {}) =>
  new TokenBucket(
    { spread: () => ({ scripts }) },
    { name: 'validate', perMinute: 10, counter: 'validate', insured: false, onLimited: () => {}, ...options },
  );
const CLOCK = 'clock-of-the-test';
const clocked = new ScriptRunner(
  sale.redis,
  luaWithClockIn(join(projectRoot(), 'lua'), `${shardPrefix(0, 1, ON_CLUSTER)}${CLOCK}`),
);
/** By a process that remembers no empty bucket, with the clock of Redis at this time. */
async function callAt(ms: number, caller: string, options: Partial<TokenBucketOptions> = {}) {
  await sale.redis.set(CLOCK, String(START + ms));
  return bucketOn(clocked, options)
    .take(caller)
    .then(
      (fields) => fields.at(-1),
      (error) => error.code as string,
    );
}
const away = { run: () => Promise.reject(new EngineUnavailable('redis', 'away')) } as Pick<ScriptRunner, 'run'>;

/** The most calls in any 60 s. */
const mostInAMinute = (times: readonly number[]) =>
  Math.max(0, ...times.map((from) => times.filter((at) => at >= from && at < from + 60_000).length));

test('a full bucket, and then a token for each part of the minute', async () => {
  for (let left = 9; left >= 0; left -= 1)
    expect(await callAt(0, 'ann')).toBe(`"validate";r=${left};t=${6 * (10 - left)}`);
  expect(await callAt(0, 'ann')).toBe('rate_limited');
  expect(await callAt(5_999, 'ann')).toBe('rate_limited');
  expect(await callAt(6_000, 'ann')).toBe('"validate";r=0;t=60');
  expect(await callAt(6_001, 'ann')).toBe('rate_limited');
  expect(await callAt(24_000, 'ann')).toBe('"validate";r=2;t=48');
  expect(await callAt(24_000, 'bob')).toBe('"validate";r=9;t=6');
});

test('a refusal names the wait until the next token, and is remembered until then', async () => {
  let now = 1_000;
  const bucket = bucketOn(sale.storeAt(START).scripts, { perMinute: 1, nowMs: () => now });
  await bucket.take('cid');
  const refusal = {
    code: 'rate_limited',
    status: 429,
    extras: {
      members: { policy: 'validate' },
      retryAfterSeconds: 60,
      headers: { 'RateLimit-Policy': '"validate";q=1;w=60', RateLimit: '"validate";r=0;t=60' },
    },
  };
  await expect(bucket.take('cid')).rejects.toMatchObject(refusal);
  await sale.redis.del(keys.bucket('validate', 'cid'));
  now = 60_000;
  await expect(bucket.take('cid')).rejects.toMatchObject({ extras: { retryAfterSeconds: 1 } });
  now = 61_000;
  expect(await bucket.take('cid')).toEqual([
    'RateLimit-Policy',
    '"validate";q=1;w=60',
    'RateLimit',
    '"validate";r=0;t=60',
  ]);
});

test('a call that is given back leaves the bucket as it was', async () => {
  const bucket = bucketOn(sale.storeAt(START).scripts, { perMinute: 2 });
  const key = keys.bucket('validate', 'dan');
  const given = async () => {
    bucket.giveBack('dan');
    await sale.redis.ping();
    return sale.redis.get(key);
  };
  await bucket.take('dan');
  expect(await given()).toBeNull();
  await bucket.take('dan');
  const before = await sale.redis.get(key);
  await bucket.take('dan');
  await expect(bucket.take('dan')).rejects.toMatchObject({ code: 'rate_limited' });
  expect(await given()).toBe(before);
  expect((await bucket.take('dan')).at(-1)).toBe('"validate";r=0;t=60');
  // What was never taken cannot be given.
  expect(await given()).toBe(before);
});

test('a token is given back where it was taken, and the caller waits until it is there', async () => {
  let isAway = true;
  const { scripts } = sale.storeAt(START);
  const run = ((...call: Parameters<ScriptRunner['run']>) =>
    isAway ? away.run(...call) : scripts.run(...call)) as ScriptRunner['run'];
  const bucket = bucketOn({ run }, { perMinute: 1, insured: true, nowMs: () => 1_000 });
  await bucket.take('ida');
  await expect(bucket.take('ida')).rejects.toMatchObject({ code: 'rate_limited' });
  bucket.giveBack('ida');
  await bucket.take('ida');
  isAway = false;
  bucket.giveBack('ida');
  await bucket.take('ida');
  await expect(bucket.take('ida')).rejects.toMatchObject({ code: 'rate_limited' });
  bucket.giveBack('ida');
  await expect(bucket.take('ida')).rejects.toMatchObject({ code: 'rate_limited' });
  const isThere = () =>
    bucket.take('ida').then(
      () => true,
      () => false,
    );
  await until('the token is there', isThere);
});

test('a clock that went back makes a caller wait for one token at most', async () => {
  expect(await callAt(3_600_000, 'eve')).toBe('"validate";r=9;t=6');
  expect(await callAt(0, 'eve')).toBe('rate_limited');
  expect(await callAt(6_000, 'eve')).toBe('"validate";r=0;t=60');
});

test('while Redis is away each process has buckets of its own, if it is insured', async () => {
  let now = 1_000;
  const bucket = bucketOn(away, { perMinute: 2, insured: true, nowMs: () => now });
  expect((await bucket.take('fay')).at(-1)).toBe('"validate";r=1;t=30');
  expect((await bucket.take('fay')).at(-1)).toBe('"validate";r=0;t=60');
  await expect(bucket.take('fay')).rejects.toMatchObject({ code: 'rate_limited', extras: { retryAfterSeconds: 30 } });
  now = 31_000;
  expect((await bucket.take('fay')).at(-1)).toBe('"validate";r=0;t=60');
  await expect(bucketOn(away).take('fay')).rejects.toThrow(EngineUnavailable);
});

test('never admits more in any span than a full bucket and what it refills, in Redis and in a process', async () => {
  let caller = 0;
  const times = fc.array(fc.integer({ min: 0, max: 4_000 }), { minLength: 30, maxLength: 60 });
  await fc.assert(
    fc.asyncProperty(times, fc.integer({ min: 1, max: 12 }), async (gaps, perMinute) => {
      caller += 1;
      let now = 1_000;
      const inProcess = bucketOn(away, { perMinute, insured: true, nowMs: () => now });
      const admitted: number[] = [];
      for (const gap of gaps) {
        now += gap;
        const [shared, own] = await Promise.all([
          callAt(now, `caller-${caller}`, { perMinute, counter: `of-${perMinute}` }),
          inProcess.take('one').then(
            () => true,
            () => false,
          ),
        ]);
        expect(shared !== 'rate_limited').toBe(own);
        if (own) admitted.push(now);
      }
      expect(mostInAMinute(admitted)).toBeLessThanOrEqual(2 * perMinute);
      expect(admitted.length).toBeGreaterThanOrEqual(Math.min(perMinute, gaps.length));
    }),
    { numRuns: 10 },
  );
});
