import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, jest, test } from '@jest/globals';
import { wideNetwork } from '../guards/caller/address.js';
import { RequestScheduler } from './request-scheduler.js';

const numbers = (count: number) => Array.from({ length: count }, (_, i) => i);
const HOUR_MS = 3_600_000;
const schedulerOf = (requests: number, ms = HOUR_MS, shared = requests) => {
  const turns = new RequestScheduler(
    { requests, ms, accepting: { requests: 2, ms }, shared: { requests: shared, ms } },
    wideNetwork,
  );
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

  test('have short turns while there are several, and for a second after that', async () => {
    const { served, take } = schedulerOf(9, HOUR_MS, 2);
    const servedInTurn = async () => {
      const before = served.length;
      await nextTurn();
      return served.length - before;
    };
    for (const i of numbers(200)) take(i);
    expect(await servedInTurn()).toBe(9);
    take('ann', '192.0.2.2');
    // Both networks have a share.
    expect(await servedInTurn()).toBe(4);
    expect([served.includes('ann'), await servedInTurn()]).toEqual([true, 2]);
    const now = performance.now();
    jest.spyOn(performance, 'now').mockReturnValue(now + 1_001);
    expect(await servedInTurn()).toBe(9);
    for (const i of numbers(9)) take(`bob ${i}`, `192.0.2.${i + 3}`);
    expect(await servedInTurn()).toBe(9);
    jest.restoreAllMocks();
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
