import { afterEach, expect, jest, test } from '@jest/globals';
import { AggregatorRegistry } from 'prom-client';
import { Metrics } from './metrics.js';

afterEach(() => {
  jest.useRealTimers();
});

/** What a scrape shows of the drift that several workers report. */
async function shown(workers: readonly Metrics[]): Promise<string> {
  const all = AggregatorRegistry.aggregate(await Promise.all(workers.map((one) => one.snapshot())));
  return String(/^doorbuster_drift_units (.*)$/m.exec(await all.metrics())?.[1]);
}

test('the drift is that of the last reconciliation, whichever worker ran it', async () => {
  jest.useFakeTimers({ now: 0 });
  const workers = [new Metrics(false), new Metrics(false)];
  expect(await shown(workers)).toBe('0');
  workers[0]?.drift.set(3);
  expect(await shown(workers)).toBe('3');
  // The other worker runs the next ones, after a repair.
  for (let minute = 1; minute <= 3; minute += 1) {
    jest.advanceTimersByTime(60_000);
    workers[1]?.drift.set(0);
  }
  expect(await shown(workers)).toBe('0');
  workers[1]?.drift.set(2);
  workers[0]?.drift.set(2);
  expect(await shown(workers)).toBe('2');
});
