import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, test } from '@jest/globals';
import type { Request } from 'express';
import { exportJWK, generateKeyPair, SignJWT } from 'jose';
import { Problem } from '../../../shared/errors/catalogue.js';
import { atEnd } from '../../../test/harness/cleanup.js';
import { ShopperIdentity } from './shopper-identity.js';

const asking = (jwt?: string) =>
  ({ headers: jwt === undefined ? {} : { authorization: `Bearer ${jwt}` } }) as unknown as Request;
const secret = new TextEncoder().encode('s'.repeat(32));
const unchecked = { issuers: [], audiences: [], attributes: [] };
const bySecret = { mode: 'jwt', key: { kind: 'secret', secret }, ...unchecked } as const;
const byKeySet = (url: URL) => ({ mode: 'jwt', key: { kind: 'jwks', url }, ...unchecked }) as const;
const signed = (subject: string, key: Uint8Array = secret, expires = '1h', claims = {}, algorithm = 'HS256') =>
  new SignJWT(claims).setProtectedHeader({ alg: algorithm }).setSubject(subject).setExpirationTime(expires).sign(key);

/** The clock of Redis, which every expiry is compared with. */
const clock = { nowMs: () => Date.now() };

async function outcome(identity: ShopperIdentity, jwt: string | undefined, user = 'ann'): Promise<string> {
  try {
    return (await identity.identify(asking(jwt), user)).proven ? 'proven' : 'unproven';
  } catch (error) {
    if (error instanceof Problem) return error.code;
    throw error;
  }
}

describe('ShopperIdentity', () => {
  test('gateway: proves no identity, and keeps the attributes of the body', async () => {
    const identity = new ShopperIdentity({ mode: 'gateway' }, clock);
    expect(await identity.identify(asking(), 'ann')).toEqual({
      ...{ proven: false, attributes: null, product: null },
    });
  });

  test('jwt with a secret: requires a valid JWT of this user', async () => {
    const identity = new ShopperIdentity(bySecret, clock);
    expect(await outcome(identity, await signed('ann'))).toBe('proven');
    expect(await outcome(identity, await signed('bob'))).toBe('forbidden');
    expect(await outcome(identity, undefined)).toBe('unauthorized');
    expect(await outcome(identity, 'nonsense')).toBe('unauthorized');
    expect(await outcome(identity, await signed('ann', new TextEncoder().encode('x'.repeat(32))))).toBe('unauthorized');
    expect(await outcome(identity, await signed('ann', secret, '-1h'))).toBe('unauthorized');
    const unsigned = `${Buffer.from('{"alg":"none"}').toString('base64url')}.${Buffer.from('{"sub":"ann"}').toString('base64url')}.`;
    expect(await outcome(identity, unsigned)).toBe('unauthorized');
    const withoutSubject = new SignJWT({}).setProtectedHeader({ alg: 'HS256' }).setExpirationTime('1h');
    expect(await outcome(identity, await withoutSubject.sign(secret))).toBe('unauthorized');
    const withoutExpiry = new SignJWT({}).setProtectedHeader({ alg: 'HS256' }).setSubject('ann');
    expect(await outcome(identity, await withoutExpiry.sign(secret))).toBe('unauthorized');
  });

  test('jwt with a secret: accepts each HMAC algorithm, one after the other with the same secret', async () => {
    const identity = new ShopperIdentity(bySecret, clock);
    const long = new TextEncoder().encode('x'.repeat(64));
    for (const algorithm of ['HS256', 'HS384', 'HS512', 'HS256']) {
      expect(await outcome(identity, await signed('ann', secret, '1h', {}, algorithm))).toBe('proven');
      expect(await outcome(identity, await signed('ann', long, '1h', {}, algorithm))).toBe('unauthorized');
    }
  });

  test('jwt: checks issuer and audience when they are set', async () => {
    const identity = new ShopperIdentity({ ...bySecret, issuers: ['login', 'old-login'], audiences: ['shop'] }, clock);
    const by = async (claims: object) => outcome(identity, await signed('ann', secret, '1h', claims));
    expect(await by({ iss: 'login', aud: 'shop' })).toBe('proven');
    expect(await by({ iss: 'old-login', aud: ['other', 'shop'] })).toBe('proven');
    expect(await by({ iss: 'login', aud: 'other' })).toBe('unauthorized');
    expect(await by({ iss: 'login' })).toBe('unauthorized');
    expect(await by({ iss: 'another', aud: 'shop' })).toBe('unauthorized');
    expect(await by({ aud: 'shop' })).toBe('unauthorized');
  });

  test('jwt: takes the named claims as attributes, and no others', async () => {
    const identity = new ShopperIdentity({ ...bySecret, attributes: ['tier', 'country', 'constructor'] }, clock);
    const jwt = await signed('ann', secret, '1h', { tier: 'gold', admin: true });
    expect((await identity.identify(asking(jwt), 'ann')).attributes).toEqual({ tier: 'gold' });
    const none = new ShopperIdentity(bySecret, clock);
    expect((await none.identify(asking(jwt), 'ann')).attributes).toEqual({});
  });

  test.each([[0, 0], [9, 9], ...[10, -1, 1.5, '2', null, undefined].map((wrong) => [wrong, undefined])])(
    'jwt: takes the level %p of a person as %p',
    async (identity_level, level) => {
      const identity = new ShopperIdentity(bySecret, clock);
      const jwt = await signed('ann', secret, '1h', { identity_level });
      expect((await identity.identify(asking(jwt), 'ann')).identity_level).toBe(level);
    },
  );

  test('jwt: judges the life of a JWT by the clock of Redis', async () => {
    const hourMs = 3_600_000;
    const jwt = await signed('ann');
    const at = (movedMs: number) => outcome(new ShopperIdentity(bySecret, { nowMs: () => Date.now() + movedMs }), jwt);
    expect(await at(hourMs - 10_000)).toBe('proven');
    expect(await at(hourMs + 10_000)).toBe('unauthorized');
  });

  test('jwt with a key set: accepts what its keys have signed and nothing else', async () => {
    const { publicKey, privateKey } = await generateKeyPair('ES256', { extractable: true });
    const jwk = await exportJWK(publicKey);
    const jwks = JSON.stringify({ keys: [{ ...jwk, kid: 'k1', alg: 'ES256' }] });
    const login = createServer((_req, res) => res.setHeader('content-type', 'application/json').end(jwks));
    await new Promise<void>((resolve) => login.listen(0, '127.0.0.1', resolve));
    atEnd('the login service', () => new Promise<void>((resolve) => login.close(() => resolve())));
    const url = new URL(`http://127.0.0.1:${(login.address() as AddressInfo).port}/jwks`);
    const identity = new ShopperIdentity(byKeySet(url), clock);
    const by = (key: typeof privateKey, typ?: string) =>
      new SignJWT({})
        .setProtectedHeader({ alg: 'ES256', kid: 'k1', ...(typ === undefined ? {} : { typ }) })
        .setSubject('ann')
        .setExpirationTime('1h')
        .sign(key);
    expect(await outcome(identity, await by(privateKey))).toBe('proven');
    expect(await outcome(identity, await by(privateKey), 'bob')).toBe('forbidden');
    for (const typ of ['JWT', 'at+jwt', 'application/at+jwt'])
      expect(await outcome(identity, await by(privateKey, typ))).toBe('proven');
    for (const typ of ['secevent+jwt', 'logout+jwt', 'dpop+jwt'])
      expect(await outcome(identity, await by(privateKey, typ))).toBe('unauthorized');
    expect(await outcome(identity, await by((await generateKeyPair('ES256')).privateKey))).toBe('unauthorized');
    expect(await outcome(identity, await signed('ann'))).toBe('unauthorized');
    // The public key as a shared secret.
    const asSecret = new TextEncoder().encode(JSON.stringify(jwk));
    expect(await outcome(identity, await signed('ann', asSecret))).toBe('unauthorized');
  });

  test('jwt: returns 503 while the login service does not answer', async () => {
    const closed = createServer();
    await new Promise<void>((resolve) => closed.listen(0, '127.0.0.1', resolve));
    const { port } = closed.address() as AddressInfo;
    await new Promise<void>((resolve) => closed.close(() => resolve()));
    const identity = new ShopperIdentity(byKeySet(new URL(`http://127.0.0.1:${port}/jwks`)), clock);
    const { privateKey } = await generateKeyPair('ES256');
    const jwt = await new SignJWT({})
      .setProtectedHeader({ alg: 'ES256', kid: 'k1' })
      .setSubject('ann')
      .setExpirationTime('1h')
      .sign(privateKey);
    expect(await outcome(identity, jwt)).toBe('temporarily_unavailable');
  });
});
