import { expect, test } from '@jest/globals';
import { LIMITS } from '../../shared/config/limits.js';
import type { SalesOf } from '../../shared/sale/sales.js';
import type { Connection } from './connection.js';
import { PositionBroadcaster } from './position-broadcaster.js';
import type { Subscriptions } from './subscriptions.js';

/** A process with one waiting user in each turn, who is always active. `roundTripMs`: of each read of positions. */
function start(isOverloaded: boolean, roundTripMs = 0) {
  const clock = { ms: 0 };
  const counts = { seen: 0, read: 0, sent: 0 };
  const connection = {
    takeActivity: () => 1,
    sendPosition: () => {
      counts.sent += 1;
    },
  } as unknown as Connection;
  const line = {
    heartbeat: async () => {
      counts.seen += 1;
    },
    positions: async () => {
      counts.read += 1;
      clock.ms += roundTripMs;
      return { kind: 'positions', positions: [7], queueSize: 9, paceMs: null };
    },
  };
  const sales = { of: () => ({ line }) } as unknown as SalesOf;
  const waiting = () => [[{ product: 'sale', bucket: 0 }, [['ann', [connection]]]]];
  const served: number[] = [];
  const subscriptions = {
    waiting: (turn: number) => {
      served.push(turn);
      return waiting();
    },
  } as unknown as Subscriptions;
  const broadcaster = new PositionBroadcaster(...([sales, subscriptions, () => isOverloaded, () => clock.ms] as const));
  return { clock, counts, served, broadcaster };
}

test.each([
  [false, 20],
  [true, 2],
])('overloaded: %s, so in twenty seconds each socket gets %s positions', async (isOverloaded, frames) => {
  const { clock, counts, broadcaster } = start(isOverloaded);
  const turns = 20 * LIMITS.sockets.positionTurns;
  for (let i = 0; i < turns; i += 1) {
    await broadcaster.broadcastNext();
    clock.ms += LIMITS.sockets.positionEveryMs / LIMITS.sockets.positionTurns;
  }
  const times = frames * LIMITS.sockets.positionTurns;
  expect(counts).toEqual({ seen: turns, read: times, sent: times });
});

test('every socket gets positions although Redis needs longer than a turn', async () => {
  const { served, broadcaster } = start(true, 500);
  for (let i = 0; i < LIMITS.sockets.positionTurns; i += 1) {
    // The timer goes on while a turn is served.
    const running = broadcaster.broadcastNext();
    for (let tick = 0; tick < 4; tick += 1) await broadcaster.broadcastNext();
    await running;
  }
  expect([...served].sort((a, b) => a - b)).toEqual(
    Array.from({ length: LIMITS.sockets.positionTurns }, (_, turn) => turn),
  );
});
