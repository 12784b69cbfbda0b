import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from '@jest/globals';
import { LoadShedder } from './load-shedding.js';

const GIVE_UP_MS = 20_000;

/** Keeps the event loop busy: each turn takes as long as `turnMs`. */
async function untilTrue(condition: () => boolean, turnMs: number): Promise<boolean> {
  const until = performance.now() + GIVE_UP_MS;
  while (!condition() && performance.now() < until) {
    const end = performance.now() + turnMs;
    while (performance.now() < end);
    await nextTurn();
    if (turnMs === 0) await sleep(50);
  }
  return condition();
}

test('a process with long turns refuses checkouts, and accepts them again when its turns are short', async () => {
  const shedder = new LoadShedder({ checkoutsInFlight: 1, eventLoopLagMs: 20 });
  shedder.start();
  try {
    expect(shedder.lagMs).toBe(0);
    expect(await untilTrue(() => shedder.lagMs > 20, 300)).toBe(true);
    expect(() => shedder.requireRoom()).toThrow(expect.objectContaining({ status: 503 }));
    expect(await untilTrue(() => shedder.lagMs === 0, 0)).toBe(true);
    await expect(shedder.admit(async () => 'served')).resolves.toBe('served');
  } finally {
    shedder.stop();
  }
});
