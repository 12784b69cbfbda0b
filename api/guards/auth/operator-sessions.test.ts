import { createSecretKey } from 'node:crypto';
import { expect, test } from '@jest/globals';
import type { Request } from 'express';
import { sessionCookie } from './operator-cookies.js';
import { OperatorSessions } from './operator-sessions.js';

const HOUR_MS = 3_600_000;
const [SECRET, OTHER] = ['a-secret-of-the-tests', 'another-secret-of-the-tests'];
const ticketKey = (id: string, fill: number) => ({ id, key: createSecretKey(Buffer.alloc(32, fill)) });

function sessions(
  nowMs = 0,
  admin = { ani: SECRET, budi: OTHER } as Record<string, string>,
  keys = [ticketKey('t1', 1)],
) {
  const clock = { nowMs };
  const named = Object.entries(admin).map(([name, secret]) => ({ name, secret }));
  return { clock, sessions: new OperatorSessions(named, keys, 8 * HOUR_MS, () => clock.nowMs) };
}
const asking = (cookie: string, secure = false) => ({ method: 'GET', secure, headers: { cookie } }) as Request;
const withCookie = (value: string) => asking(`doorbuster_operator=${value}`);

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

test('no session is opened without a secret', () => {
  for (const text of ['', SECRET.slice(1), `${SECRET} `, 'ani', `ani:${SECRET}`])
    expect(sessions().sessions.open(text)).toBeNull();
});

test('over TLS only a cookie that this host alone can have set is taken', () => {
  const { sessions: ours } = sessions();
  const value = String(ours.open(SECRET)?.value);
  expect(sessionCookie(asking('', true), value, 60)).toBe(
    `__Host-doorbuster_operator=${value}; Path=/; Secure; Max-Age=60; HttpOnly; SameSite=Strict`,
  );
  expect(ours.of(asking(`doorbuster_operator=${value}`, true))).toBeNull();
  const junk = Array.from({ length: 20 }, () => 'doorbuster_operator=junk').join('; ');
  expect(ours.of(asking(`${junk}; __Host-doorbuster_operator=${value}`, true))?.operator).toBe('ani');
  // Without TLS there is no such prefix. A few dozen cookies of another host do no harm.
  expect(ours.of(asking(`${junk}; doorbuster_operator=${value}`))?.operator).toBe('ani');
});

test('a session has one text', () => {
  const { sessions: ours } = sessions();
  const value = String(ours.open(SECRET)?.value);
  for (const more of ['=', '==', '!', '!!!', ' x']) expect(ours.of(withCookie(`${value}${more}`))).toBeNull();
});
