import { createHmac, timingSafeEqual } from 'node:crypto';
import { isRecord } from './shapes.js';

export type PayLinkCheck =
  | { valid: true; expiresAt: Date }
  | { valid: false; reason: 'malformed' | 'unknown_key' | 'wrong_signature' | 'expired' };

const SIGNATURE = /v1\.([A-Za-z0-9_-]{1,16})\.(\d{1,12})\.([A-Za-z0-9_-]{43})/g;

/**
 * Verifies the link by which a shopper arrived to pay. The signature covers path, query and fragment, so every value in
 * them is genuine if the link is valid. The origin is not covered. The unit may have been paid or given up since: before
 * you take money, ask with `reservation` whether it is still `reserved`, or `extend` it.
 * @param url the link, or its path and query as Node has them in `req.url`
 * @param keys PAY_LINK_KEYS of the server: comma-separated `kid:base64`
 * @param now for tests
 */
export function verifyPayLink(url: string, keys: string, now: Date = new Date()): PayLinkCheck {
  // A server may pass on what a request has, such as a list of values.
  if (typeof url !== 'string') return { valid: false, reason: 'malformed' };
  const path = url.replace(/^[a-z][a-z0-9+.-]*:\/\/[^/?#]*/i, '');
  const found = [...path.matchAll(SIGNATURE)];
  const [signature, kid, seconds, mac] = found[0] ?? [];
  if (found.length !== 1 || !signature || !kid || !seconds || !mac) return { valid: false, reason: 'malformed' };
  const key = keysOf(keys).get(kid);
  if (!key || key.length < LEAST_KEY_BYTES) return { valid: false, reason: 'unknown_key' };
  const signed = `v1.${kid}.${seconds}\n${path.replace(signature, '')}`;
  if (!isEqual(createHmac('sha256', key).update(signed).digest(), Buffer.from(mac, 'base64url')))
    return { valid: false, reason: 'wrong_signature' };
  const expiresAt = new Date(Number(seconds) * 1000);
  return now < expiresAt ? { valid: true, expiresAt } : { valid: false, reason: 'expired' };
}

/** How old a webhook may be, and how far its clock may be ahead. */
const WEBHOOK_TOLERANCE_SECONDS = 300;

/** Standard Webhooks asks for 24 to 64 bytes. */
const LEAST_KEY_BYTES = 24;

export type WebhookHeaders = Readonly<Record<string, string | readonly string[] | undefined>>;

/**
 * Verifies a webhook by the rules of Standard Webhooks and returns its event.
 * @param body the raw body; a body that was parsed and encoded again does not verify
 * @param headers with names in lower case, as Node has them
 * @param secret `whsec_…`, which the server returned when the endpoint was created
 * @throws WebhookError if the webhook is not genuine or too old, or if its body is missing or no JSON object
 */
export function verifyWebhook(
  body: string | Buffer,
  headers: WebhookHeaders,
  secret: string,
  now: Date = new Date(),
): Record<string, unknown> {
  const [id, timestamp, signatures] = ['webhook-id', 'webhook-timestamp', 'webhook-signature'].map((name) =>
    typeof headers?.[name] === 'string' ? headers[name] : '',
  ) as [string, string, string];
  if (!id || !/^\d{1,12}$/.test(timestamp) || !signatures) throw new WebhookError('a webhook header is missing');
  if (Math.abs(now.getTime() / 1000 - Number(timestamp)) > WEBHOOK_TOLERANCE_SECONDS)
    throw new WebhookError('the webhook is too old, or the clock is wrong');
  const key = Buffer.from(String(secret ?? '').replace(/^whsec_/, ''), 'base64');
  // An empty setting would make every webhook genuine that is signed with an empty key.
  if (key.length < LEAST_KEY_BYTES) throw new WebhookError('the secret is missing or too short');
  // `express.raw` leaves the body undefined if the request has none, and a JSON parser before it leaves an object.
  if (typeof body !== 'string' && !ArrayBuffer.isView(body))
    throw new WebhookError('the raw body is missing, or was parsed before');
  const text = typeof body === 'string' ? body : Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString();
  const expected = createHmac('sha256', key).update(`${id}.${timestamp}.${text}`).digest();
  const isGenuine = signatures
    .split(' ')
    .some((one) => one.startsWith('v1,') && isEqual(expected, Buffer.from(one.slice(3), 'base64')));
  if (!isGenuine) throw new WebhookError('the signature does not match');
  const event = eventOf(text);
  if (!event) throw new WebhookError('the body is not a JSON object');
  return event;
}

function eventOf(text: string): Record<string, unknown> | null {
  try {
    const json: unknown = JSON.parse(text);
    return isRecord(json) ? json : null;
  } catch {
    return null;
  }
}

/** A webhook that must not be acted on. */
export class WebhookError extends Error {
  override readonly name = 'WebhookError';
}

function keysOf(text: unknown): Map<string, Buffer> {
  if (typeof text !== 'string') return new Map();
  return new Map(
    text.split(',').map((entry) => {
      const colon = entry.indexOf(':');
      return [entry.slice(0, colon).trim(), Buffer.from(entry.slice(colon + 1).trim(), 'base64')];
    }),
  );
}

function isEqual(a: Buffer, b: Buffer): boolean {
  return a.length === b.length && timingSafeEqual(a, b);
}
