import { expect, test } from '@jest/globals';
import { uuidv7 } from 'uuidv7';
import type { Ban } from '../../../shared/domain/ban.js';
import type { UserId } from '../../../shared/domain/ids.js';
import type { BanNotification } from '../../../shared/redis/ban-store.js';
import { Bans, type BansDeps } from './bans.js';

const user = 'ann' as UserId;
const ban: Ban = {
  id: uuidv7(),
  effect: 'ban',
  kind: 'user',
  subject: user,
  untilMs: null,
  reason: 'r',
  actor: 'olga',
};

test('Bans removes a ban that is lifted while Postgres is asked, also when Postgres does not reply', async () => {
  let notify: (notification: BanNotification) => void = () => {};
  let fail: (error: Error) => void = () => {};
  let beginAsking = () => {};
  const asking = new Promise<void>((resolve) => {
    beginAsking = resolve;
  });
  const store = {
    all: async () => [ban],
    listen: async (onNotification: typeof notify) => {
      notify = onNotification;
    },
  };
  const table = {
    inForce: () =>
      new Promise<Ban[]>((_, reject) => {
        fail = reject;
        beginAsking();
      }),
  };
  const limits = { kept: 10, pausesKept: 10, syncEveryMs: 3_600_000, ruleBansPerSecond: 1 };
  const log = { warn: () => {} };
  const bans = new Bans({ store, table, log, limits, nowMs: () => 0, onRefused: () => {} } as unknown as BansDeps);
  bans.start();
  // The read that `start` has begun.
  const reading = bans.sync();
  await asking;
  notify({ kind: 'lifted', id: ban.id });
  fail(new Error('connect ECONNREFUSED'));
  await expect(reading).rejects.toThrow('ECONNREFUSED');
  bans.stop();
  expect(bans.banOf({ user })).toBeNull();
});
