import { expect, test } from '@jest/globals';
import { EngineUnavailable } from '../errors/faults.js';
import { CircuitBreaker } from './circuit-breaker.js';

const away = () => Promise.reject(new EngineUnavailable('postgres', 'away'));
const refusal = () => Promise.reject(new Error('no such column'));
const NOT_ASKED = 'Postgres has failed several times in a row and is not asked now';

/** A read whose outcome the test decides later. */
function pending() {
  let [answer, fail] = [() => {}, () => {}];
  const outcome = new Promise<void>((resolve, reject) => {
    answer = resolve;
    fail = () => reject(new EngineUnavailable('postgres', 'away'));
  });
  return { read: () => outcome, answer: () => answer(), fail: () => fail() };
}

function start() {
  const clock = { ms: 0 };
  let calls = 0;
  const breaker = new CircuitBreaker({ failures: 3, openMs: 1_000, nowMs: () => clock.ms });
  const run = (read: () => Promise<unknown>) => {
    const counted = () => {
      calls += 1;
      return read();
    };
    return breaker.run(counted).then(
      () => 'done',
      (error: Error) => error.message,
    );
  };
  const open = async () => {
    for (let i = 0; i < 3; i += 1) await run(away);
  };
  return { clock, breaker, run, open, calls: () => calls };
}

test('opens after failures in a row, and refuses reads without making them', async () => {
  const { breaker, run, calls } = start();
  for (let i = 0; i < 3; i += 1) expect(await run(away)).toBe('away');
  expect(breaker.isOpen).toBe(true);
  expect(await run(async () => 'ignored')).toBe(NOT_ASKED);
  expect(calls()).toBe(3);
});

test('lets one read through after its time, and closes if Postgres answers it', async () => {
  const { clock, breaker, run, open, calls } = start();
  await open();
  clock.ms = 1_000;
  const trial = pending();
  const first = run(trial.read);
  expect(await run(async () => {})).toBe(NOT_ASKED);
  expect(calls()).toBe(4);
  trial.answer();
  expect(await first).toBe('done');
  expect([breaker.isOpen, await run(async () => {})]).toEqual([false, 'done']);
});

test('stays open if Postgres does not, and closes if it refuses the read', async () => {
  const { clock, breaker, run, open, calls } = start();
  await open();
  clock.ms = 1_000;
  expect(await run(away)).toBe('away');
  clock.ms = 1_999;
  expect(await run(away)).toBe(NOT_ASKED);
  expect(calls()).toBe(4);
  clock.ms = 2_000;
  expect(await run(refusal)).toBe('no such column');
  expect(breaker.isOpen).toBe(false);
});

test('counts failures in a row only, and no refusals of Postgres', async () => {
  const { breaker, run } = start();
  for (const read of [away, away, refusal, away, away, async () => {}, away, away]) await run(read);
  expect(breaker.isOpen).toBe(false);
});

test('a read from before it opened neither closes it, nor admits a second trial, nor keeps it open', async () => {
  const { clock, breaker, run, open } = start();
  const [late, later] = [pending(), pending()];
  const reads = [run(late.read), run(later.read)];
  await open();
  late.answer();
  expect(await reads[0]).toBe('done');
  expect(breaker.isOpen).toBe(true);
  clock.ms = 1_000;
  const trial = pending();
  const tried = run(trial.read);
  later.fail();
  await reads[1];
  expect(await run(async () => {})).toBe(NOT_ASKED);
  trial.answer();
  await tried;
  expect(breaker.isOpen).toBe(false);
});
