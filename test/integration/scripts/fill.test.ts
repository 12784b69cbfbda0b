import { afterEach, expect, test } from '@jest/globals';
import type { IdempotencyKey, UserId } from '../../../shared/domain/ids.js';
import { EngineUnavailable, FencedOut } from '../../../shared/errors/faults.js';
import { readEpoch } from '../../../shared/redis/epoch.js';
import { decodeInstallation } from '../../../shared/redis/installation.js';
import { campaignKeys, keys } from '../../../shared/redis/keys.js';
import { keepInstallation } from '../../../shared/shards/keep-installation.js';
import { CampaignRestore } from '../../../worker/recovery/campaign-restore.js';
import { RedisFill } from '../../../worker/recovery/redis-fill.js';
import { newKey } from '../../harness/campaign.js';
import { startSale } from '../../harness/sale.js';

/** Only one worker fills Redis, and only while Redis is out of service. */
const sale = await startSale();
const fill = new RedisFill(sale.store.scripts);
afterEach(() => sale.expectConsistent());

const epochNow = { generation: Date.now() + 1_000, server: 'test' };

test('a worker that was overtaken writes nothing any more', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 1 });
  const key = newKey();
  await campaign.take('ann', { key });
  await campaign.join('bob');
  const epoch = await readEpoch(sale.redis);
  await fill.begin('the first');
  await fill.begin('the second');
  const everything = async () => [
    await campaign.inRedis(),
    await sale.journal.lastId(),
    await sale.redis.get(keys.idempotency('ann' as never, key as never)),
    await sale.redis.get(keys.filler),
    await readEpoch(sale.redis),
  ];
  const before = await everything();
  const late = new CampaignRestore(fill, 'the first', campaign.product, 1);
  const record = { user: 'eve', qty: 1, slot: 1, dueMs: 1, lineNo: 0, orderId: 'o', code: null } as const;
  const person = { inLine: true, slots: [], lineNo: 9, qty: 1, reservationId: 'r', orderId: '', code: null };
  const tries = [
    () => late.clear(),
    () => late.reservations(new Map([['r', { ...record, state: 'reserved' as const }]])),
    () => late.people([['eve', { ...person, state: 'queued' as const }]]),
    () => late.codes([1]),
    () => late.answers([{ user: 'ann', key, answer: 'another', ttlMs: 1_000 }]),
    () => fill.resetJournal('the first'),
    () => fill.end('the first', epochNow),
  ];
  for (const attempt of tries) await expect(attempt()).rejects.toThrow(FencedOut);
  expect(await everything()).toEqual(before);
  await fill.end('the second', epoch ?? epochNow);
  // In service again: neither of them may write.
  for (const token of ['the first', 'the second'])
    await expect(new CampaignRestore(fill, token, campaign.product).clear()).rejects.toThrow(FencedOut);
  expect(await campaign.stock()).toMatchObject({ held: 1, waiting: 1 });
});

test('a token does not help once Redis is in service, and is forgotten a minute after the last write', async () => {
  const campaign = await sale.openCampaign();
  const epoch = (await readEpoch(sale.redis)) ?? epochNow;
  await fill.begin('mine');
  expect(await sale.redis.pttl(keys.filler)).toBeGreaterThan(59_000);
  await sale.redis.pexpire(keys.filler, 5_000);
  await fill.write('mine', 'codes', [keys.usedCodes(sale.unknownCampaign().product)], [1]);
  expect(await sale.redis.pttl(keys.filler)).toBeGreaterThan(59_000);
  await sale.redis.set(keys.epoch, '1|somebody');
  await expect(new CampaignRestore(fill, 'mine', campaign.product).clear()).rejects.toThrow(FencedOut);
  await expect(fill.end('mine', epochNow)).rejects.toThrow(FencedOut);
  await sale.redis.del(keys.epoch);
  await sale.redis.pexpire(keys.filler, 0);
  await expect(new CampaignRestore(fill, 'mine', campaign.product).clear()).rejects.toThrow(FencedOut);
  await fill.begin('mine again');
  await fill.end('mine again', epoch);
});

test('while Redis is filled every script replies that it is being rebuilt', async () => {
  const campaign = await sale.openCampaign();
  await sale.fill(async () => {
    await expect(campaign.checkout('ann')).rejects.toThrow(EngineUnavailable);
    await expect(campaign.setStatus('close')).rejects.toThrow(EngineUnavailable);
  });
  await campaign.take('ann');
});

test('writes any number of records, in batches, as encoders and decoders agree', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 3_000 });
  const count = 2_345;
  const ids = Array.from({ length: count }, (_, i) => `r-${i}`);
  await sale.fill(async (token) => {
    const restore = new CampaignRestore(fill, token, campaign.product, 77);
    await restore.clear();
    expect(await sale.redis.exists(...campaignKeys(campaign.product))).toBe(0);
    const half = { qty: 1, slot: 1, orderId: 'o', code: 5 } as const;
    await restore.reservations(
      new Map(
        ids.map((id, i) => [
          id,
          { ...half, user: `u-${i}`, lineNo: 0, dueMs: i % 2 ? 99 : 0, state: i % 2 ? 'reserved' : 'released' },
        ]),
      ),
    );
    await restore.people(
      ids.map((id, i) => [
        `p-${i}`,
        { ...half, state: 'queued', inLine: i % 3 === 0, slots: [1, 2], lineNo: i + 1, reservationId: id },
      ]),
    );
    await restore.codes([1, 8, 9, 4_000]);
    await restore.answers(
      ids.map((id) => ({ user: 'ann', key: `key-of-${id}`, answer: `answer-${id}`, ttlMs: 90_000 })),
    );
    await restore.reservations(new Map());
    await restore.people([]);
  });
  const { reservations, people, deadlines, line, presence, usedCodes } = await campaign.inRedis();
  expect([reservations.size, people.size]).toEqual([count, count]);
  expect(deadlines.size).toBe(Math.floor(count / 2));
  expect([line.length, presence.size]).toEqual([Math.ceil(count / 3), Math.ceil(count / 3)]);
  expect(line.at(-1)).toEqual({ user: 'p-2343', lineNo: 2_344, away: false });
  expect(usedCodes).toEqual([1, 8, 9, 4_000]);
  expect(await sale.redis.get(keys.idempotency('ann' as never, 'key-of-r-2344' as never))).toBe('answer-r-2344');
  expect(await sale.redis.pttl(keys.idempotency('ann' as never, 'key-of-r-0' as never))).toBeGreaterThan(80_000);
  await sale.redis.del(...campaignKeys(campaign.product));
  await sale.redis.hdel(keys.directory, String(campaign.terms.no));
  await campaign.store.campaigns.load(campaign.terms);
});

test('a response of another campaign under the same key stays for as long as it would have without the refill', async () => {
  const { product } = sale.unknownCampaign();
  const [user, key] = ['ann' as UserId, newKey() as IdempotencyKey];
  const name = keys.idempotency(user, key);
  await sale.fill(async (token) => {
    const restore = new CampaignRestore(fill, token, product);
    await restore.answers([{ user, key, answer: '1|1|ann|first', ttlMs: 90_000 }]);
    await restore.answers([{ user, key, answer: '2|1|ann|second', ttlMs: 5_000 }]);
  });
  expect(await sale.redis.get(name)).toBe('1|1|ann|first\n2|1|ann|second');
  expect(await sale.redis.pttl(name)).toBeGreaterThan(80_000);
});

test('the journal of a next history begins with its first number', async () => {
  const campaign = await sale.openCampaign();
  await campaign.take('ann');
  await fill.begin('mine');
  await fill.resetJournal('mine');
  const generation = Date.now() + 5_000;
  await fill.end('mine', { generation, server: 'test' });
  await campaign.take('bob');
  expect(await sale.journal.lastId()).toBe(`${generation}-0`);
});

test('a history begins only over the one that was read, and only while no worker fills Redis', async () => {
  const before = await readEpoch(sale.redis);
  if (!before) throw new Error('there is no epoch');
  const next = { generation: before.generation + 60_000, server: 'another' };
  const begin = async (expected: typeof next | null, to: typeof next) =>
    fill.beginHistory(expected, to, await sale.journal.lastId());
  expect(await begin(null, next)).toEqual({ kind: 'changed' });
  expect(await begin({ ...before, server: 'x' }, next)).toEqual({ kind: 'changed' });
  expect(await begin(before, next)).toEqual({ kind: 'begun' });
  expect(await readEpoch(sale.redis)).toEqual(next);
  await sale.redis.set(keys.filler, 'somebody');
  expect(await begin(next, before)).toEqual({ kind: 'changed' });
  await sale.redis.del(keys.filler);
  await sale.withoutEpoch(async () => {
    expect(await begin(next, before)).toEqual({ kind: 'changed' });
    expect(await begin(null, next)).toEqual({ kind: 'begun' });
  });
  const campaign = await sale.openCampaign();
  await campaign.take('ann');
  expect(await sale.journal.lastId()).toMatch(new RegExp(`^${next.generation}-\\d+$`));
});

test('a history begins only over the journal that Postgres knows', async () => {
  const before = await readEpoch(sale.redis);
  if (!before) throw new Error('there is no epoch');
  const next = { generation: before.generation + 60_000, server: 'another' };
  const campaign = await sale.openCampaign();
  await campaign.take('ann');
  const lastId = await sale.journal.lastId();
  await campaign.take('bob');
  expect(await fill.beginHistory(before, next, lastId)).toEqual({ kind: 'changed' });
  expect(await readEpoch(sale.redis)).toEqual(before);
  await sale.journal.trim(await sale.journal.lastId());
  expect(await fill.beginHistory(before, next, await sale.journal.lastId())).toEqual({ kind: 'begun' });
});

test('a shard keeps the latest version of the map of campaigns, in service or not', async () => {
  const kept = async () => decodeInstallation(await sale.redis.get(keys.installation));
  const { scripts } = sale.store;
  expect(await kept()).toBe(null);
  await keepInstallation(scripts, { shards: 4, version: 1_795_622_445_313 });
  await keepInstallation(scripts, { shards: 2, version: 1_795_622_445_312 });
  expect(await kept()).toEqual({ shards: 4, version: 1_795_622_445_313 });
  const epoch = await readEpoch(sale.redis);
  await fill.begin('mine');
  await keepInstallation(scripts, { shards: 8, version: 1_795_622_445_314 });
  expect(await kept()).toEqual({ shards: 8, version: 1_795_622_445_314 });
  await fill.end('mine', epoch ?? epochNow);
});

test('a campaign that was removed is not in the directory any more, and the others are', async () => {
  const [gone, stays] = [await sale.openCampaign(), await sale.openCampaign()];
  await gone.take('ann');
  const epoch = await readEpoch(sale.redis);
  await fill.begin('mine');
  await fill.removeCampaign('mine', Number(gone.terms.no), gone.product);
  await expect(fill.removeCampaign('another', Number(stays.terms.no), stays.product)).rejects.toThrow(FencedOut);
  await fill.end('mine', epoch ?? epochNow);
  const directory = await sale.store.reader.directory();
  expect([directory.has(Number(gone.terms.no)), directory.has(Number(stays.terms.no))]).toEqual([false, true]);
  expect(await sale.redis.exists(...campaignKeys(gone.product))).toBe(0);
  expect((await gone.checkout('bob')).kind).toBe('not_found');
  expect(await sale.store.campaigns.load(gone.terms)).toEqual({ kind: 'loaded' });
});

test('every reply of the scripts has come in this file', () => {
  for (const script of ['begin_fill', 'fill', 'end_fill', 'begin_history', 'keep_installation'])
    expect(sale.unmetReplies(script)).toEqual([]);
});
