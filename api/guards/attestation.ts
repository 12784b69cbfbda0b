import { createHmac, timingSafeEqual } from 'node:crypto';
import type { SigningKey } from '../../shared/config/config.js';

/**
 * Device tokens: HMAC-SHA256 over the device and the expiry, as `<key id>.<mac>`. They say that this device asked us
 * lately, nothing more. The first key signs; all verify, so that a key can be rotated without a refused shopper.
 */
export class Attestation {
  readonly #byId: ReadonlyMap<string, Buffer>;
  readonly #signing: SigningKey;

  constructor(keys: readonly SigningKey[]) {
    const [first] = keys;
    if (!first) throw new Error('at least one attestation key is needed');
    this.#signing = first;
    this.#byId = new Map(keys.map(({ id, key }) => [id, key]));
  }

  sign(device: string, expiresAtSeconds: number): string {
    return `${this.#signing.id}.${mac(this.#signing.key, device, expiresAtSeconds)}`;
  }

  /** Whether the token is ours for this device and expiry, whatever its age; lua/reserve.lua judges that. */
  isGenuine(token: string, device: string, expiresAtSeconds: number): boolean {
    const dot = token.indexOf('.');
    const key = this.#byId.get(token.slice(0, Math.max(0, dot)));
    if (!key) return false;
    // As texts: decoding would take several texts for the same token.
    const given = Buffer.from(token.slice(dot + 1));
    const expected = Buffer.from(mac(key, device, expiresAtSeconds));
    return given.length === expected.length && timingSafeEqual(given, expected);
  }
}

function mac(key: Buffer, device: string, expiresAtSeconds: number): string {
  return createHmac('sha256', key).update(`${device}:${expiresAtSeconds}`).digest('base64url');
}
