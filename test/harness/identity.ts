import { createHmac } from 'node:crypto';

export const JWT_SECRET = 'a-secret-of-the-login-service-of-the-tests';
export const SIGNING_KEY = Buffer.alloc(32, 11);

const encode = (part: unknown) => Buffer.from(JSON.stringify(part)).toString('base64url');

/** Seconds since 1970, so many from now. */
export const secondsFromNow = (seconds: number) => Math.floor(Date.now() / 1000) + seconds;

/** A JWT with exactly these claims. @param alg `none` leaves the signature out */
export function jwtOf(claims: object, { alg = 'HS256', secret = JWT_SECRET } = {}): string {
  const signed = `${encode({ alg, typ: 'JWT' })}.${encode(claims)}`;
  return `${signed}.${alg === 'none' ? '' : createHmac('sha256', secret).update(signed).digest('base64url')}`;
}

/** A hand-over as a shop signs it (docs/identity.md). */
export function handOverOf(payload: object, { prefix = 'shopper-v1', id = 's1', key = SIGNING_KEY } = {}): string {
  const signed = `${prefix}.${id}.${encode(payload)}`;
  return `${signed}.${createHmac('sha256', key).update(signed).digest('base64url')}`;
}
