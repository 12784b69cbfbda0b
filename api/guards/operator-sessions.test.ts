import { expect, test } from '@jest/globals';
import type { Request } from 'express';
import { OperatorSessions, SESSION_COOKIE } from './operator-sessions.js';

const HOUR_MS = 3_600_000;
const [SECRET, OTHER] = ['a-secret-of-the-tests', 'another-secret-of-the-tests'];
const ticketKey = (id: string, fill: number) => ({ id, key: Buffer.alloc(32, fill) });

function sessions(
  nowMs = 0,
  admin = { ani: SECRET, budi: OTHER } as Record<string, string>,
  keys = [ticketKey('t1', 1)],
) {
  const clock = { nowMs };
  const named = Object.entries(admin).map(([name, secret]) => ({ name, secret }));
  return { clock, sessions: new OperatorSessions(named, keys, 8 * HOUR_MS, () => clock.nowMs) };
}
const withCookie = (value: string) => ({ method: 'GET', headers: { cookie: `${SESSION_COOKIE}=${value}` } }) as Request;

test('a session is that of the key it was opened with, until its time is up and not a moment longer', () => {
  const { clock, sessions: ours } = sessions(1_000);
  const opened = ours.open(OTHER);
  expect(opened).toMatchObject({ operator: 'budi', expiresAtMs: 1_000 + 8 * HOUR_MS });
  const shown = withCookie(String(opened?.value));
  clock.nowMs = 8 * HOUR_MS + 999;
  expect(ours.of(shown)?.operator).toBe('budi');
  clock.nowMs += 1;
  expect(ours.of(shown)).toBeNull();
});

test('it says nothing of the secret, and no secret can be tried out on it without a key of tickets', () => {
  const value = String(sessions().sessions.open(SECRET)?.value);
  const elsewhere = sessions(0, { ani: SECRET }, [ticketKey('t1', 2)]).sessions;
  expect(elsewhere.of(withCookie(value))).toBeNull();
  expect(value).not.toContain(SECRET);
});

test('it outlives a rotation of the ticket keys for as long as the old one verifies', () => {
  const value = String(sessions().sessions.open(SECRET)?.value);
  const both = sessions(0, { ani: SECRET }, [ticketKey('t2', 2), ticketKey('t1', 1)]).sessions;
  expect(both.of(withCookie(value))?.operator).toBe('ani');
  const fresh = String(both.open(SECRET)?.value);
  expect(sessions(0, { ani: SECRET }, [ticketKey('t2', 2)]).sessions.of(withCookie(fresh))?.operator).toBe('ani');
});

test('it ends with its key: one that was taken away, was changed, or has another name now', () => {
  const shown = withCookie(String(sessions().sessions.open(SECRET)?.value));
  for (const admin of [{ budi: OTHER }, { ani: OTHER }, { eko: SECRET }] as Record<string, string>[])
    expect(sessions(0, admin).sessions.of(shown)).toBeNull();
});

test('nobody gets one without a secret', () => {
  for (const text of ['', SECRET.slice(1), `${SECRET} `, 'ani', `ani:${SECRET}`])
    expect(sessions().sessions.open(text)).toBeNull();
});
