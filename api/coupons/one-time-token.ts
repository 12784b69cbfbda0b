import { createHmac, type KeyObject, randomBytes, timingSafeEqual } from 'node:crypto';
import type { SigningKey } from '../../shared/config/environment-values.js';
import type { Code } from '../../shared/domain/codes.js';

const NONCE_BYTES = 12;
const PATTERN = /^([\w-]+)\.([0-9a-z]{1,11})\.([\w-]{16})\.([\w-]{43})$/;

/**
 * Signs and verifies one-time tokens: `<key id>.<expiry ms, base 36>.<nonce>.<mac>`, bound to a code and a user. A new
 * token is not stored; the script that claims a unit records its use.
 */
export class OneTimeTokens {
  readonly #byId: ReadonlyMap<string, KeyObject>;
  readonly #signing: SigningKey;

  constructor(keys: readonly SigningKey[]) {
    const [first] = keys;
    if (!first) throw new Error('at least one ticket key is required');
    this.#signing = first;
    this.#byId = new Map(keys.map(({ id, key }) => [id, key]));
  }

  sign(code: Code, user: string, expiresAtMs: number): string {
    const payload = `${this.#signing.id}.${expiresAtMs.toString(36)}.${randomBytes(NONCE_BYTES).toString('base64url')}`;
    return `${payload}.${mac(this.#signing.key, payload, code, user)}`;
  }

  /** @returns null = not valid for this code and user. lua/reserve.lua checks its expiry and whether it was used. */
  verify(token: string, code: Code, user: string): { nonce: string; expiresAtMs: number } | null {
    const [, keyId, expires, nonce, given] = PATTERN.exec(token) ?? [];
    const key = this.#byId.get(String(keyId));
    if (!key || !expires || !nonce || !given) return null;
    const expected = mac(key, `${keyId}.${expires}.${nonce}`, code, user);
    if (!timingSafeEqual(Buffer.from(given), Buffer.from(expected))) return null;
    return { nonce, expiresAtMs: Number.parseInt(expires, 36) };
  }
}

/** The word `once` distinguishes these signatures from those of tickets, which use the same keys. */
function mac(key: KeyObject, payload: string, code: Code, user: string): string {
  return createHmac('sha256', key).update(`once|${payload}|${code}|${user}`).digest('base64url');
}
