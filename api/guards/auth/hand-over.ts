import { createHmac, type KeyObject, timingSafeEqual } from 'node:crypto';
import { z } from 'zod';
import type { SigningKey } from '../../../shared/config/environment-values.js';
import type { Attributes } from '../../../shared/domain/audience.js';
import { decodeBase64url } from '../../../shared/domain/base64url.js';
import { EXTERNAL_ID_PATTERN } from '../../../shared/domain/ids.js';
import { PERSON_CLAIMS, type Person } from '../abuse/requirements.js';

/** Content of a valid hand-over or JWT. `product` null = every campaign. */
export type Proof = { user: string; product: string | null; attributes: Attributes } & Person;

/**
 * Version and purpose. The signature covers it, so that no other text signed with the same key is a valid hand-over.
 */
const PREFIX = 'shopper-v1';
const externalId = z.string().regex(EXTERNAL_ID_PATTERN);
const payloadSchema = z.strictObject({
  user_id: externalId,
  expires_at: z.int().min(0),
  product_id: externalId.optional(),
  attributes: z.record(z.string(), z.unknown()).optional(),
  ...PERSON_CLAIMS,
});

/**
 * Verifies hand-overs: `shopper-v1.<key id>.<payload>.<mac>`. The payload is a JSON object in base64url; the mac is the
 * base64url of HMAC-SHA256 over everything before the last dot. The shop signs them; docs/identity.md has examples.
 */
export class HandOvers {
  readonly #byId: ReadonlyMap<string, KeyObject>;

  constructor(
    keys: readonly SigningKey[],
    /** The clock of Redis. */
    readonly clock: { nowMs: () => number },
    /** Maximum time from now to `expires_at`. */
    readonly maxLifeMs: number,
  ) {
    this.#byId = new Map(keys.map(({ id, key }) => [id, key]));
  }

  /** Returns the content; null = forged, malformed, expired, or valid for too long. */
  verify(text: string): Proof | null {
    const [prefix, keyId, payload, mac, ...rest] = text.split('.');
    const key = this.#byId.get(keyId ?? '');
    if (prefix !== PREFIX || !key || payload === undefined || mac === undefined || rest.length > 0) return null;
    const given = decodeBase64url(mac);
    const expected = createHmac('sha256', key).update(`${PREFIX}.${keyId}.${payload}`).digest();
    if (given?.length !== expected.length || !timingSafeEqual(given, expected)) return null;
    const parsed = payloadSchema.safeParse(parseJson(decodeBase64url(payload)));
    if (!parsed.success) return null;
    const { user_id, expires_at, product_id, attributes, ...person } = parsed.data;
    const leftMs = expires_at * 1000 - this.clock.nowMs();
    if (leftMs <= 0 || leftMs > this.maxLifeMs) return null;
    return { user: user_id, product: product_id ?? null, attributes: attributes ?? {}, ...person };
  }
}

function parseJson(bytes: Buffer | null): unknown {
  try {
    return bytes && JSON.parse(bytes.toString());
  } catch {
    return null;
  }
}
