import { stat } from 'node:fs/promises';
import { expect, jest, test } from '@jest/globals';
import { EngineUnavailable } from '../errors/faults.js';
import { Deadline } from './deadline.js';

const LIMIT_MS = 250;
const NEVER = new Promise<never>(() => {});

/** Blocks this process, as a burst of requests does. */
function beBusyFor(ms: number): void {
  const end = performance.now() + ms;
  while (performance.now() < end);
}

test('gives up on a call without a reply, and reports once for all late calls', async () => {
  let late = 0;
  const deadline = new Deadline(LIMIT_MS, () => {
    late += 1;
  });
  const began = performance.now();
  // Both begin at the same moment, because a check between them would find only the first one late.
  const clock = jest.spyOn(performance, 'now').mockReturnValue(began);
  const both = [deadline.limit(NEVER), deadline.limit(NEVER)];
  clock.mockRestore();
  const calls = await Promise.allSettled(both);
  expect(performance.now() - began).toBeGreaterThanOrEqual(LIMIT_MS);
  expect(calls.map((call) => call.status === 'rejected' && call.reason)).toEqual([
    expect.any(EngineUnavailable),
    expect.any(EngineUnavailable),
  ]);
  expect(late).toBe(1);
});

test('does not give up on a reply that is unread because this process was busy', async () => {
  const deadline = new Deadline(LIMIT_MS, () => {
    throw new Error('it was taken for late');
  });
  for (let bursts = 0; bursts < 3; bursts += 1) {
    const call = deadline.limit(stat(process.execPath).then(({ size }) => size));
    beBusyFor(3 * LIMIT_MS);
    expect(await call).toBeGreaterThan(0);
  }
});

test('gives up in time on a call that was made after this process had been busy', async () => {
  const deadline = new Deadline(LIMIT_MS, () => {});
  const earlier = deadline.limit(NEVER).catch(() => {});
  beBusyFor(8 * LIMIT_MS);
  const late = new Deadline(5 * LIMIT_MS, () => {}).limit(NEVER).catch(() => 'late');
  expect(await Promise.race([late, deadline.limit(NEVER).catch(() => 'in time')])).toBe('in time');
  await earlier;
});

test('passes on replies and failures', async () => {
  const deadline = new Deadline(LIMIT_MS, () => {});
  expect(await deadline.limit(Promise.resolve('done'))).toBe('done');
  await expect(deadline.limit(Promise.reject(new Error('refused')))).rejects.toThrow('refused');
});
