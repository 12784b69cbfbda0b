import { afterEach, beforeEach, expect, jest, test } from '@jest/globals';
import type { Database } from '../../shared/postgres/pool.js';
import { LockLost, RecoveryLock } from './recovery-lock.js';

beforeEach(() => {
  jest.useFakeTimers();
});
afterEach(() => {
  jest.useRealTimers();
});

/** A connection that replies to each renewal when the test says so. */
function slowDatabase() {
  const renewals: { reply: () => void; fail: (error: Error) => void }[] = [];
  const query = (sql: string) =>
    sql === 'select 1'
      ? new Promise((resolve, reject) => renewals.push({ reply: () => resolve({ rows: [] }), fail: reject }))
      : Promise.resolve({ rows: [{ mine: true }] });
  const database = { transaction: (work: (client: unknown) => unknown) => work({ query }) } as unknown as Database;
  return { database, renewals };
}

test('a lock is renewed by one statement at a time, and given up after the last one', async () => {
  const { database, renewals } = slowDatabase();
  let end = () => {};
  let isReleased = false;
  const held = new RecoveryLock(database).hold(() => new Promise((resolve) => (end = resolve)));
  held.then(() => {
    isReleased = true;
  });
  await jest.advanceTimersByTimeAsync(2_600);
  expect(renewals.length).toBe(1);
  renewals[0]?.reply();
  await jest.advanceTimersByTimeAsync(500);
  expect(renewals.length).toBe(2);
  end();
  await jest.advanceTimersByTimeAsync(0);
  expect(isReleased).toBe(false);
  renewals[1]?.reply();
  expect(await held).toBe(true);
});

test('a renewal that fails loses the lock', async () => {
  const { database, renewals } = slowDatabase();
  let assertHeld = () => {};
  let end = () => {};
  const held = new RecoveryLock(database).hold((assert) => {
    assertHeld = assert;
    return new Promise((resolve) => (end = resolve));
  });
  await jest.advanceTimersByTimeAsync(500);
  expect(assertHeld).not.toThrow();
  renewals[0]?.fail(new Error('the connection is gone'));
  await jest.advanceTimersByTimeAsync(0);
  expect(assertHeld).toThrow(LockLost);
  end();
  await held;
});
