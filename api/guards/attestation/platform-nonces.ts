import { createHmac, type KeyObject, randomBytes, timingSafeEqual } from 'node:crypto';
import type { SigningKey } from '../../../shared/config/environment-values.js';
import type { ChallengeFor } from './challenges.js';

const RANDOM_BYTES = 12;
const TIME_BYTES = 4;
const MAC_BYTES = 32;
/** Length in base64url of the longest nonce, with a key id of 16 characters. */
export const MAX_NONCE_CHARACTERS = 90;

/**
 * Nonces that a platform signs: random bytes and an expiry, bound to one device and campaign. They are base64url, the
 * only encoding that Play Integrity accepts. A new nonce is not stored; it contains the id of its key, so that keys can
 * be rotated.
 */
export class PlatformNonces {
  readonly #byId: ReadonlyMap<string, KeyObject>;
  readonly #signing: SigningKey;

  constructor(
    keys: readonly SigningKey[],
    readonly nowMs: () => number,
    readonly lifeMs: number,
  ) {
    const [first] = keys;
    if (!first) throw new Error('at least one key is required');
    this.#signing = first;
    this.#byId = new Map(keys.map(({ id, key }) => [id, key]));
  }

  make(what: ChallengeFor): { nonce: string; expiresAt: number } {
    const { id, key } = this.#signing;
    const expiresAt = Math.floor((this.nowMs() + this.lifeMs) / 1000);
    const time = Buffer.alloc(TIME_BYTES);
    time.writeUInt32BE(expiresAt);
    const head = Buffer.concat([Buffer.from([id.length]), Buffer.from(id), time, randomBytes(RANDOM_BYTES)]);
    return { nonce: Buffer.concat([head, mac(key, head, what)]).toString('base64url'), expiresAt };
  }

  /**
   * Whether a nonce is genuine, has this binding and is not expired. `PlatformAttestation` checks that it is unused.
   */
  isValid(nonce: string, what: ChallengeFor): boolean {
    const bytes = Buffer.from(nonce, 'base64url');
    const idLength = bytes[0] ?? 0;
    const headLength = 1 + idLength + TIME_BYTES + RANDOM_BYTES;
    // Only the canonical encoding is valid, because another text of a used nonce would count as unused.
    if (bytes.length !== headLength + MAC_BYTES || bytes.toString('base64url') !== nonce) return false;
    const key = this.#byId.get(bytes.subarray(1, 1 + idLength).toString('latin1'));
    const head = bytes.subarray(0, headLength);
    if (!key || !timingSafeEqual(bytes.subarray(headLength), mac(key, head, what))) return false;
    return head.readUInt32BE(1 + idLength) * 1000 >= this.nowMs();
  }
}

/** The word `platform` distinguishes these signatures from others with the same keys. */
function mac(key: KeyObject, head: Buffer, { product, subject }: ChallengeFor): Buffer {
  return createHmac('sha256', key).update(`platform|${product}|${subject}|`).update(head).digest();
}
