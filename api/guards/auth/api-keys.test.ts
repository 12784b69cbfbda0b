import { expect, test } from '@jest/globals';
import type { Request } from 'express';
import { Problem } from '../../../shared/errors/catalogue.js';
import { ApiKeys, bearerOf } from './api-keys.js';
import type { OperatorSessions } from './operator-sessions.js';

const keys = new ApiKeys(
  [
    { name: 'olga', secret: 'secret-of-olga' },
    { name: 'otto', secret: 'secret-of-otto' },
  ],
  [{ name: 'payments', secret: 'secret-of-payments' }],
);
const asking = (authorization?: string) =>
  ({ headers: authorization === undefined ? {} : { authorization } }) as unknown as Request;

function refusal(authorization: string | undefined, kind: 'admin' | 'service'): unknown[] {
  try {
    return [keys.require(asking(authorization), kind)];
  } catch (error) {
    if (error instanceof Problem) return [error.code, error.status, error.extras.headers ?? null];
    throw error;
  }
}
const CHALLENGE = { 'WWW-Authenticate': 'Bearer realm="doorbuster"' };

test('knows by its secret who asks', () => {
  expect(keys.require(asking('Bearer secret-of-olga'), 'admin')).toBe('olga');
  expect(keys.require(asking('bearer   secret-of-otto'), 'admin')).toBe('otto');
  expect(keys.require(asking('Bearer secret-of-payments'), 'service')).toBe('payments');
});

test('asks for credentials when there are none or unknown ones', () => {
  for (const header of [
    undefined,
    '',
    'secret-of-olga',
    'Basic secret-of-olga',
    'Bearer',
    'Bearer ',
    'Bearer secret-of-olg',
    'Bearer secret-of-olga x',
  ]) {
    expect([header, ...refusal(header, 'admin')]).toEqual([header, 'unauthorized', 401, CHALLENGE]);
  }
});

test('tells a key of the wrong kind apart from an unknown one', () => {
  expect(refusal('Bearer secret-of-payments', 'admin')).toEqual(['forbidden', 403, null]);
  expect(refusal('Bearer secret-of-olga', 'service')).toEqual(['forbidden', 403, null]);
});

test('takes the session of a browser only where no other credentials are sent', () => {
  const sessions = { caller: () => ({ operator: 'olga', role: 'admin', expiresAtMs: 1 }) };
  const withSession = new ApiKeys([], [], null, () => {}, sessions as unknown as OperatorSessions);
  expect(withSession.require(asking(), 'admin')).toBe('olga');
  for (const header of ['', 'Basic b2xnYTp4', 'Bearer unknown-secret'])
    expect(() => withSession.require(asking(header), 'admin')).toThrow('The');
});

test('sees whether a secret was sent at all', () => {
  expect([keys.presented(asking()), keys.presented(asking('Bearer x')), keys.presented(asking('Basic x'))]).toEqual([
    false,
    true,
    false,
  ]);
  expect(bearerOf(asking('Bearer a.b.c'))).toBe('a.b.c');
});
