import { createHmac, type KeyObject, randomBytes, timingSafeEqual } from 'node:crypto';
import type { SigningKey } from '../../../shared/config/environment-values.js';
import type { AttestationLevel } from '../../../shared/domain/campaign-policy.js';

/** A token that is ours: what it is worth, and its id, "" = it has none. */
export type GenuineToken = { level: AttestationLevel; id: string };
const SELF_DECLARED: GenuineToken = { level: 0, id: '' };

const NONCE_BYTES = 9;
/** A key id may have a dot; what follows it may not. */
const LEVELLED = /^(.+)\.([12])\.([\w-]{12})\.([\w-]{43})$/;
/** Levels that a device has to prove, with the word that keeps their signatures apart. */
export type ProvenLevel = Exclude<AttestationLevel, 0>;
const WORDS: Readonly<Record<ProvenLevel, string>> = { 1: 'worked', 2: 'vouched' };

/**
 * Device tokens. Level 0, `<key id>.<mac>`: HMAC-SHA256 over the device and the expiry; it says that this device asked us
 * lately, nothing more. Levels 1 and 2, `<key id>.<level>.<nonce>.<mac>`: somebody has worked for it, or Apple or Google vouch for app
 * and device; for this campaign. The first key signs; all verify, so that a key can be rotated without a refused shopper.
 */
export class Attestation {
  readonly #byId: ReadonlyMap<string, KeyObject>;
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

  /** A token that was worked or vouched for, for one campaign. */
  signProven(level: ProvenLevel, device: string, expiresAtSeconds: number, product: string): string {
    const nonce = randomBytes(NONCE_BYTES).toString('base64url');
    const { id, key } = this.#signing;
    return `${id}.${level}.${nonce}.${provenMac(key, level, device, expiresAtSeconds, product, nonce)}`;
  }

  /** What a token is worth in a campaign; null when it is not ours. */
  read(token: string, device: string, expiresAtSeconds: number, product: string): GenuineToken | null {
    if (this.isGenuine(token, device, expiresAtSeconds)) return SELF_DECLARED;
    const [, keyId, digit, nonce, given] = LEVELLED.exec(token) ?? [];
    const key = this.#byId.get(String(keyId));
    if (!key || !nonce || !given) return null;
    const level = digit === '2' ? 2 : 1;
    const expected = provenMac(key, level, device, expiresAtSeconds, product, nonce);
    return timingSafeEqual(Buffer.from(given), Buffer.from(expected)) ? { level, id: nonce } : null;
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

function mac(key: KeyObject, device: string, expiresAtSeconds: number): string {
  return createHmac('sha256', key).update(`${device}:${expiresAtSeconds}`).digest('base64url');
}

function provenMac(
  key: KeyObject,
  level: ProvenLevel,
  device: string,
  expiresAtSeconds: number,
  product: string,
  nonce: string,
): string {
  return createHmac('sha256', key)
    .update(`${WORDS[level]}|${device}|${expiresAtSeconds}|${product}|${nonce}`)
    .digest('base64url');
}
