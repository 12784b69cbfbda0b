import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from '@jest/globals';
import { RequestScheduler } from './request-scheduler.js';

const numbers = (count: number) => Array.from({ length: count }, (_, i) => i);

test('one turn serves at most the limit, and waiting requests are served in order, before new ones', async () => {
  const turns = new RequestScheduler(3);
  const served: number[] = [];
  for (const i of numbers(7)) turns.take(() => served.push(i));
  expect([served, turns.waiting]).toEqual([[0, 1, 2], 4]);
  await nextTurn();
  turns.take(() => served.push(7));
  expect([served, turns.waiting]).toEqual([numbers(6), 2]);
  await nextTurn();
  expect([served, turns.waiting]).toEqual([numbers(8), 0]);
});

test('after a turn without waiting requests the next ones are served at once', async () => {
  const turns = new RequestScheduler(2);
  const served: number[] = [];
  for (const i of numbers(2)) turns.take(() => served.push(i));
  await nextTurn();
  for (const i of [2, 3]) turns.take(() => served.push(i));
  expect([served, turns.waiting]).toEqual([numbers(4), 0]);
});
