import { randomBytes } from 'node:crypto';
import { expect, test } from '@jest/globals';
import type { Request, Response } from 'express';
import type { Route } from '../../http/route.js';
import { NamedSessions, type NamedSessionsDeps } from './named-sessions.js';

test('an ended session costs one statement a second, however often its cookie is sent', async () => {
  const found: string[] = [];
  let now = 0;
  const find = async (digest: Buffer) => {
    found.push(digest.toString('hex'));
    return null;
  };
  const sessions = new NamedSessions({
    table: { find } as unknown as NamedSessionsDeps['table'],
    ticketKeys: [{ id: 't1', key: randomBytes(32) }] as unknown as NamedSessionsDeps['ticketKeys'],
    nowMs: () => now,
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
  expect([await send(), await send()]).toEqual([null, null]);
  expect(found.length).toBe(1);
  now += 1_000;
  await send();
  expect(found.length).toBe(2);
});
