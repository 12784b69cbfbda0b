import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, describe, expect, jest, test } from '@jest/globals';
import { until } from '../../test/harness/until.js';
import { wideNetwork } from '../guards/caller/address.js';
import { RequestScheduler } from './request-scheduler.js';

const numbers = (count: number) => Array.from({ length: count }, (_, i) => i);
const HOUR_MS = 3_600_000;
const schedulerOf = (requests: number, ms = HOUR_MS, inService = 1_000_000) => {
  const turns = new RequestScheduler({ requests, ms, accepting: { requests: 2, ms }, inService }, wideNetwork);
  const served: (number | string)[] = [];
  const take = (request: number | string, network = '192.0.2.1') =>
    turns.take(
      () => served.push(request),
      () => network,
    );
  return { turns, served, take };
};

test('one turn serves at most the limit, and waiting requests are served in order, before new ones', async () => {
  const { turns, served, take } = schedulerOf(3);
  for (const i of numbers(7)) take(i);
  expect([served, turns.waiting]).toEqual([[0, 1, 2], 4]);
  await nextTurn();
  take(7);
  expect([served, turns.waiting]).toEqual([numbers(6), 2]);
  await nextTurn();
  expect([served, turns.waiting]).toEqual([numbers(8), 0]);
});

test('after a turn without waiting requests the next ones are served at once', async () => {
  const { turns, served, take } = schedulerOf(2);
  for (const i of numbers(2)) take(i);
  await nextTurn();
  for (const i of [2, 3]) take(i);
  expect([served, turns.waiting]).toEqual([numbers(4), 0]);
});

test('turns are short while connections are accepted, because one is accepted in each turn', async () => {
  const { turns, served, take } = schedulerOf(4);
  for (const i of numbers(20)) take(i);
  turns.accepted();
  await nextTurn();
  expect(served).toEqual(numbers(6));
  turns.accepted();
  await nextTurn();
  expect(served).toEqual(numbers(8));
  await nextTurn();
  expect(served).toEqual(numbers(12));
});

test('more is read in each turn, also in one that serves nothing', async () => {
  let left = 3;
  const turns = new RequestScheduler(
    { requests: 1, ms: HOUR_MS, accepting: { requests: 1, ms: HOUR_MS }, inService: 1 },
    wideNetwork,
    () => {
      left -= 1;
      return left > 0;
    },
  );
  turns.take(
    () => {},
    () => '192.0.2.1',
  );
  await until('the last one is read', () => left === 0);
});

describe('networks that wait', () => {
  test('are served in rounds, so that a flood of one delays the others by one request each', async () => {
    const { served, take } = schedulerOf(4);
    for (const i of numbers(5_000)) take(i);
    for (const i of [0, 1]) take(`ann ${i}`, '192.0.2.2');
    take('bob', '192.0.2.3');
    await nextTurn();
    expect(served.slice(4)).toEqual([4, 'ann 0', 'bob', 5]);
    await nextTurn();
    expect(served.slice(8)).toEqual(['ann 1', 6, 7, 8]);
    while (served.length < 5_003) await nextTurn();
    expect(served.filter((one) => typeof one === 'number')).toEqual(numbers(5_000));
  });

  describe('while there are several', () => {
    afterEach(() => {
      jest.restoreAllMocks();
    });

    /** Ten requests of one network wait, and two of another one. Three of each may be in service. */
    const several = async () => {
      // A slow machine must not end the time that a request counts as in service.
      jest.spyOn(performance, 'now').mockReturnValue(performance.now());
      const scheduler = new RequestScheduler(
        { requests: 4, ms: HOUR_MS, accepting: { requests: 2, ms: HOUR_MS }, inService: 3 },
        wideNetwork,
      );
      const begun: string[] = [];
      const ends: (() => void)[] = [];
      const take = (name: string, network: string) =>
        scheduler.take(
          (done) => {
            begun.push(name);
            if (done) ends.push(done);
          },
          () => network,
        );
      for (const i of numbers(14)) take(`flood ${i}`, '192.0.2.1');
      for (const i of numbers(2)) take(`ann ${i}`, '192.0.2.2');
      for (let turn = 0; turn < 5; turn += 1) await nextTurn();
      return { scheduler, take, begun: begun.slice(4), ends, all: begun };
    };

    test('have few requests in service each', async () => {
      const { begun, take, ends, all, scheduler } = await several();
      expect(begun).toEqual(['flood 4', 'ann 0', 'flood 5', 'ann 1', 'flood 6']);
      take('bob', '192.0.2.3');
      await nextTurn();
      expect(all.at(-1)).toBe('bob');
      // One is done, and the next one of its network begins.
      ends[0]?.();
      await nextTurn();
      expect([all.at(-1), scheduler.waiting]).toEqual(['flood 7', 6]);
    });

    test('have each request wait for a turn, also when none waits before it', async () => {
      const { take, ends, all, scheduler } = await several();
      while (scheduler.waiting > 0) {
        for (const end of ends.splice(0)) end();
        await nextTurn();
      }
      const served = all.length;
      take('ann 2', '192.0.2.2');
      expect([all.length, scheduler.waiting]).toEqual([served, 1]);
      await nextTurn();
      expect(all.at(-1)).toBe('ann 2');
    });

    test('are not stopped by a request that takes long', async () => {
      const { all } = await several();
      const now = performance.now();
      jest.spyOn(performance, 'now').mockReturnValue(now + 33);
      await until('the next ones begin', () => all.length === 12);
      expect(all.slice(9)).toEqual(['flood 7', 'flood 8', 'flood 9']);
    });

    test('keep their count when requests end that took longer', async () => {
      const { all, ends } = await several();
      const now = performance.now();
      jest.spyOn(performance, 'now').mockReturnValue(now + 33);
      ends[0]?.();
      await until('the next ones begin', () => all.length === 12);
      for (const late of [2, 4]) ends[late]?.();
      for (let turn = 0; turn < 3; turn += 1) await nextTurn();
      expect(all).toHaveLength(12);
    });

    test('have as many as they like when the others have had none for a second', async () => {
      const { all, scheduler } = await several();
      const now = performance.now();
      jest.spyOn(performance, 'now').mockReturnValue(now + 1_001);
      await until('all begin', () => scheduler.waiting === 0);
      expect(all).toHaveLength(16);
    });
  });

  test('have the turns of one network together, if one customer may have them all', async () => {
    const { turns, served, take } = schedulerOf(4);
    for (const i of numbers(400)) take(i, `2001:db8:7:${(i % 100).toString(16)}::/64`);
    for (const i of [0, 1]) take(`ann ${i}`, '2001:db8:8:0::/64');
    for (const i of [0, 1]) take(`bob ${i}`, '192.0.2.3');
    await nextTurn();
    await nextTurn();
    expect(served.slice(4)).toEqual([4, 'ann 0', 'bob 0', 5, 'ann 1', 'bob 1', 6, 7]);
    expect(turns.hasShareOf(300, '2001:db8:7:ffff::/64')).toBe(true);
    expect(turns.hasShareOf(300, '2001:db8:8:0::/64')).toBe(false);
    while (turns.waiting > 0) await nextTurn();
    // Its own networks go round too.
    expect(served.slice(12, 18)).toEqual([8, 9, 10, 11, 12, 13]);
  });

  test('share the places: a flood is refused, and a network with few requests is not', () => {
    const { turns, take } = schedulerOf(1);
    for (const i of numbers(101)) take(i);
    expect(turns.hasShareOf(100, '192.0.2.1')).toBe(true);
    expect(turns.hasShareOf(100, '192.0.2.2')).toBe(false);
    take('ann', '192.0.2.2');
    expect(['192.0.2.1', '192.0.2.2'].map((network) => turns.hasShareOf(100, network))).toEqual([true, false]);
  });
});

test('a turn ends after its time, and requests that arrive meanwhile do not pass those that wait', async () => {
  const { turns, served, take } = schedulerOf(3, 0);
  for (const i of numbers(6)) take(i);
  await nextTurn();
  take(6);
  expect([served, turns.waiting]).toEqual([numbers(4), 3]);
  while (turns.waiting > 0) await nextTurn();
  expect(served).toEqual(numbers(7));
});
