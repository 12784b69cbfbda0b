import { randomBytes } from 'node:crypto';
import { expect, test } from '@jest/globals';
import type { Request, Response } from 'express';
import type { Route } from '../../http/route.js';
import { NamedSessions, type NamedSessionsDeps } from './named-sessions.js';

type Found = Awaited<ReturnType<NamedSessionsDeps['table']['find']>>;

/** Sends one cookie to a route of operators. `asked`: statements so far. */
function browser(stored: Found) {
  const at = { now: 0, asked: 0 };
  const find = async () => {
    at.asked += 1;
    return stored;
  };
  const sessions = new NamedSessions({
    table: { find, markSeen: async () => {} } as unknown as NamedSessionsDeps['table'],
    ticketKeys: [{ id: 't1', key: randomBytes(32) }] as unknown as NamedSessionsDeps['ticketKeys'],
    nowMs: () => at.now,
    limits: { sessionsCached: 10, sessionCachedMs: 1_000, sessionSeenEveryMs: 60_000 },
  });
  const { value } = sessions.newToken();
  const cookie = Array.from({ length: 32 }, () => `doorbuster_operator=${value}`).join('; ');
  const route = { contract: { tag: 'admin' }, handle: () => {} } as unknown as Route;
  const [{ handle }] = sessions.withSessions([route]) as [Route];
  const send = async () => {
    const req = { headers: { cookie } } as Request;
    await handle(req, {} as Response);
    return sessions.of(req);
  };
  return { at, send };
}

test('an ended session costs one statement a second, however often its cookie is sent', async () => {
  const { at, send } = browser(null);
  expect([await send(), await send()]).toEqual([null, null]);
  expect(at.asked).toBe(1);
  at.now += 1_000;
  await send();
  expect(at.asked).toBe(2);
});

test('a session ends at its time, also while what was found is used without a statement', async () => {
  const { at, send } = browser({ id: 's1', operator: 'olga', role: 'viewer', expiresAt: new Date(500) } as Found);
  expect(await send()).toMatchObject({ operator: 'olga' });
  at.now = 499;
  expect(await send()).toMatchObject({ operator: 'olga' });
  at.now = 500;
  expect(await send()).toBeNull();
  expect(at.asked).toBe(1);
});
