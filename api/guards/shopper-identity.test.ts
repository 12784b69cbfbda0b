import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, test } from '@jest/globals';
import type { Request } from 'express';
import { exportJWK, generateKeyPair, SignJWT } from 'jose';
import { Problem } from '../../shared/errors/catalogue.js';
import { atEnd } from '../../test/harness/cleanup.js';
import { ShopperIdentity } from './shopper-identity.js';

const asking = (jwt?: string) =>
  ({ headers: jwt === undefined ? {} : { authorization: `Bearer ${jwt}` } }) as unknown as Request;
const secret = new TextEncoder().encode('s'.repeat(32));
const signed = (subject: string, key: Uint8Array = secret, expires = '1h', algorithm = 'HS256') =>
  new SignJWT({}).setProtectedHeader({ alg: algorithm }).setSubject(subject).setExpirationTime(expires).sign(key);

/** Redis's clock; where this machine's is does not matter. */
const clock = { nowMs: () => Date.now() };

async function outcome(identity: ShopperIdentity, jwt: string | undefined, user = 'ann'): Promise<string> {
  try {
    await identity.identify(asking(jwt), user);
    return 'served';
  } catch (error) {
    if (error instanceof Problem) return error.code;
    throw error;
  }
}

test('trusts the gateway when no login is configured', async () => {
  const identity = new ShopperIdentity({ kind: 'none' }, clock);
  expect(identity.required).toBe(false);
  expect(await outcome(identity, undefined)).toBe('served');
});

test('with a secret, wants a valid JWT of the very user', async () => {
  const identity = new ShopperIdentity({ kind: 'secret', secret }, clock);
  expect(identity.required).toBe(true);
  expect(await outcome(identity, await signed('ann'))).toBe('served');
  expect(await outcome(identity, await signed('bob'))).toBe('forbidden');
  expect(await outcome(identity, undefined)).toBe('unauthorized');
  expect(await outcome(identity, 'nonsense')).toBe('unauthorized');
  expect(await outcome(identity, await signed('ann', new TextEncoder().encode('x'.repeat(32))))).toBe('unauthorized');
  expect(await outcome(identity, await signed('ann', secret, '-1h'))).toBe('unauthorized');
  const unsigned = `${Buffer.from('{"alg":"none"}').toString('base64url')}.${Buffer.from('{"sub":"ann"}').toString('base64url')}.`;
  expect(await outcome(identity, unsigned)).toBe('unauthorized');
  const withoutSubject = await new SignJWT({}).setProtectedHeader({ alg: 'HS256' }).sign(secret);
  expect(await outcome(identity, withoutSubject)).toBe('unauthorized');
});

test('judges the life of a JWT by the clock of Redis', async () => {
  const hourMs = 3_600_000;
  const at = (movedMs: number) =>
    outcome(new ShopperIdentity({ kind: 'secret', secret }, { nowMs: () => Date.now() + movedMs }), jwt);
  const jwt = await signed('ann');
  expect(await at(hourMs - 10_000)).toBe('served');
  expect(await at(hourMs + 10_000)).toBe('unauthorized');
});

test('with a key set, takes what its keys have signed and nothing else', async () => {
  const { publicKey, privateKey } = await generateKeyPair('ES256');
  const jwks = JSON.stringify({ keys: [{ ...(await exportJWK(publicKey)), kid: 'k1', alg: 'ES256' }] });
  const login = createServer((_req, res) => res.setHeader('content-type', 'application/json').end(jwks));
  await new Promise<void>((resolve) => login.listen(0, '127.0.0.1', resolve));
  atEnd('the login service', () => new Promise<void>((resolve) => login.close(() => resolve())));
  const url = new URL(`http://127.0.0.1:${(login.address() as AddressInfo).port}/jwks`);
  const identity = new ShopperIdentity({ kind: 'jwks', url }, clock);
  const jwt = await new SignJWT({})
    .setProtectedHeader({ alg: 'ES256', kid: 'k1' })
    .setSubject('ann')
    .setExpirationTime('1h')
    .sign(privateKey);
  expect(await outcome(identity, jwt)).toBe('served');
  expect(await outcome(identity, jwt, 'bob')).toBe('forbidden');
  const foreign = await generateKeyPair('ES256');
  const forged = await new SignJWT({})
    .setProtectedHeader({ alg: 'ES256', kid: 'k1' })
    .setSubject('ann')
    .sign(foreign.privateKey);
  expect(await outcome(identity, forged)).toBe('unauthorized');
  expect(await outcome(identity, await signed('ann'))).toBe('unauthorized');
});

test('says that it cannot answer while the login service is away, not that the shopper is nobody', async () => {
  const closed = createServer();
  await new Promise<void>((resolve) => closed.listen(0, '127.0.0.1', resolve));
  const { port } = closed.address() as AddressInfo;
  await new Promise<void>((resolve) => closed.close(() => resolve()));
  const identity = new ShopperIdentity({ kind: 'jwks', url: new URL(`http://127.0.0.1:${port}/jwks`) }, clock);
  const { privateKey } = await generateKeyPair('ES256');
  const jwt = await new SignJWT({}).setProtectedHeader({ alg: 'ES256', kid: 'k1' }).setSubject('ann').sign(privateKey);
  expect(await outcome(identity, jwt)).toBe('temporarily_unavailable');
});
