import { createHmac, randomUUID } from 'node:crypto';
import { expect } from '@jest/globals';
import { type Answer, type Operator, type Shopper, send } from './clients.js';
import { arrive } from './shoppers.js';
import { freshToken } from './tokens.js';

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

type Call = { headers?: Record<string, string>; key?: string } & Record<string, unknown>;

/** A checkout in the name of a user, from a device of its own unless another one is given; null = from none. */
export function checkoutAs(url: string, user: string, product: string, { headers = {}, key, ...fields }: Call = {}) {
  const token = 'attestation' in fields || fields.device_fp === null ? {} : freshToken(`fp-${randomUUID()}`);
  const { device_fp, ...rest } = { ...token, ...fields } as Record<string, unknown>;
  return send(`${url}/flash-sale/checkout`, {
    method: 'POST',
    headers: { 'idempotency-key': key ?? randomUUID(), ...headers },
    json: { product_id: product, user_id: user, qty: 1, ...(device_fp ? { device_fp } : {}), ...rest },
  });
}

/** One unit, and a line for it. */
export const oneUnit = { total_limit: 1, hold_seconds: 900, waiting_room: { enabled: true } };

/** A campaign whose only unit is held, and a shopper in line for it. */
export async function openWithVictim(operator: Operator, terms: object = {}) {
  const product = await operator.openCampaign({ ...oneUnit, ...terms });
  const held = String((await arrive(operator.url, product).checkout()).data.reservation_id);
  const victim = arrive(operator.url, product);
  expect((await victim.checkout()).status).toBe(202);
  return { product, held, victim };
}

export const withTicket = (ticket: unknown) => ({ 'x-ticket': String(ticket) });

/** The public data of a place, without anything that gives power over it. */
export const PLACE_FIELDS = ['estimated_wait_seconds', 'poll_after_seconds', 'position', 'queue_size', 'status'];

/** The response has the place, and nothing that gives power over it. */
export function expectPlaceOnly(answer: Answer, victim: Shopper): void {
  expect([answer.status, answer.data.status, answer.data.position]).toEqual([202, 'queued', 1]);
  expect(Object.keys(answer.data).sort()).toEqual(PLACE_FIELDS);
  expect(answer.text).not.toContain(String(victim.ticket));
}
