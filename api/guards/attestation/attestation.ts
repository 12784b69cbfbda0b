import { createHmac, type KeyObject, randomBytes, timingSafeEqual } from 'node:crypto';
import type { SigningKey } from '../../../shared/config/environment-values.js';
import type { AttestationLevel } from '../../../shared/domain/campaign-policy.js';

/** A valid token: its level and its id; "" = no id. */
export type GenuineToken = { level: AttestationLevel; id: string };
const SELF_DECLARED: GenuineToken = { level: 0, id: '' };

const NONCE_BYTES = 9;
/** A key id may contain a dot; the parts after it may not. */
const LEVELLED = /^(.+)\.([12])\.([\w-]{12})\.([\w-]{43})$/;
/** Levels that a device has to prove, with the word that distinguishes their signatures. */
export type ProvenLevel = Exclude<AttestationLevel, 0>;
const WORDS: Readonly<Record<ProvenLevel, string>> = { 1: 'worked', 2: 'vouched' };

/**
 * Signs and verifies device tokens. Level 0, `<key id>.<mac>`: HMAC-SHA256 over the device and the expiry; it only
 * shows that the device recently requested a token. Levels 1 and 2, `<key id>.<level>.<nonce>.<mac>`: a proof of work,
 * or an attestation of app and device by Apple or Google, for one campaign. The first key signs and all keys verify, so
 * that rotating a key rejects no shopper.
 */
export class Attestation {
  readonly #byId: ReadonlyMap<string, KeyObject>;
  readonly #signing: SigningKey;

  constructor(keys: readonly SigningKey[]) {
    const [first] = keys;
    if (!first) throw new Error('at least one attestation key is required');
    this.#signing = first;
    this.#byId = new Map(keys.map(({ id, key }) => [id, key]));
  }

  sign(device: string, expiresAtSeconds: number): string {
    return `${this.#signing.id}.${mac(this.#signing.key, device, expiresAtSeconds)}`;
  }

  /** Returns a token of level 1 or 2 for one campaign. */
  signProven(level: ProvenLevel, device: string, expiresAtSeconds: number, product: string): string {
    const nonce = randomBytes(NONCE_BYTES).toString('base64url');
    const { id, key } = this.#signing;
    return `${id}.${level}.${nonce}.${provenMac(key, level, device, expiresAtSeconds, product, nonce)}`;
  }

  /** Returns the level and id of a token in a campaign; null = not valid. */
  read(token: string, device: string, expiresAtSeconds: number, product: string): GenuineToken | null {
    if (this.isGenuine(token, device, expiresAtSeconds)) return SELF_DECLARED;
    const [, keyId, digit, nonce, given] = LEVELLED.exec(token) ?? [];
    const key = this.#byId.get(String(keyId));
    if (!key || !nonce || !given) return null;
    const level = digit === '2' ? 2 : 1;
    const expected = provenMac(key, level, device, expiresAtSeconds, product, nonce);
    return timingSafeEqual(Buffer.from(given), Buffer.from(expected)) ? { level, id: nonce } : null;
  }

  /** Whether a token of level 0 is genuine for this device and expiry. lua/reserve.lua checks the expiry. */
  isGenuine(token: string, device: string, expiresAtSeconds: number): boolean {
    const dot = token.indexOf('.');
    const key = this.#byId.get(token.slice(0, Math.max(0, dot)));
    if (!key) return false;
    // Compares the encoded texts, because several texts decode to the same token.
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
