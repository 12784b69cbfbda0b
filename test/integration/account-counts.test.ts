import { createSecretKey } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { AccountCounts } from '../../api/guards/abuse/account-counts.js';
import type { DeviceId, UserId } from '../../shared/domain/ids.js';
import { startTestRedis } from '../harness/engines.js';
import { keyNames } from '../harness/key-names.js';
import { oneShard } from '../harness/one-shard.js';

const redis = await startTestRedis();
const LIMITS = { accountsMemoryMs: 86_400_000, firstAccountMs: 3_600_000, newDevicesPerHour: 10, callersKept: 100 };
const start = (secret = 'a secret') =>
  new AccountCounts(oneShard(redis.client), createSecretKey(Buffer.from(secret)), LIMITS);
const device = (name: string) => name as DeviceId;
const user = (name: string) => name as UserId;
const lifeOf = (name: string) => redis.client.pttl(`db1:w:d:${name}`);

test('names that were chosen against a public hash count like any others', async () => {
  const counts = start();
  // Names that leave the count of a plain hyperloglog where ten others have put it.
  const first = Array.from({ length: 10 }, (_, i) => `user-${i}`);
  await redis.client.pfadd('plain', ...first);
  const chosen: string[] = [];
  for (let i = 0; chosen.length < 5; i += 1) {
    const name = `chosen-${i}`;
    await redis.client.copy('plain', 'tried', 'REPLACE');
    if ((await redis.client.pfadd('tried', name)) === 0) chosen.push(name);
  }
  let count = 0;
  for (const name of [...first, ...chosen]) count = (await counts.inNetwork('203.0.113.7', user(name))) ?? 0;
  expect(count).toBeGreaterThanOrEqual(14);
  expect(await start().inNetwork('203.0.113.7', user('user-0'))).toBe(count);
  // With another secret the counts begin anew, so no account is counted twice.
  expect(await start('another').inNetwork('203.0.113.7', user('user-0'))).toBe(1);
});

test('a device with one user is remembered for an hour, and with a second one for a day', async () => {
  const counts = start();
  const see = (name: string) => counts.onDevice(device('fp-shared'), user(name), '203.0.113.8');
  expect([await see('ann'), await see('ann')]).toEqual([1, 1]);
  expect(await lifeOf('fp-shared')).toBeLessThanOrEqual(3_600_000);
  expect(await lifeOf('fp-shared')).toBeGreaterThan(3_500_000);
  expect(await see('bob')).toBe(2);
  expect(await lifeOf('fp-shared')).toBeGreaterThan(86_000_000);
});

test('a network that makes up devices adds so many, and those that are known go on being counted', async () => {
  const counts = start();
  const see = (i: number, name = 'ann', network = '203.0.113.9') =>
    counts.onDevice(device(`fp-${i}`), user(name), network);
  const seen: (number | null)[] = [];
  for (let i = 0; i < 30; i += 1) seen.push(await see(i));
  expect(seen).toEqual([...Array(10).fill(1), ...Array(20).fill(null)]);
  expect((await keyNames(redis.client, 'db1:w:d:fp-*')).filter((key) => /fp-\d+$/.test(key)).length).toBe(10);
  expect([await see(3, 'bob'), await see(40, 'ann', '203.0.113.10')]).toEqual([2, 1]);
});
