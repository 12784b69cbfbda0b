import type { DeviceId } from './ids.js';

const DERIVED = /^fp-[0-9a-f]{40}$/;

/** Makes the fingerprint of a device that sent none. @param digest hexadecimal digest of properties of the request */
export function derivedFingerprint(digest: string): DeviceId {
  return `fp-${digest.slice(0, 40)}` as DeviceId;
}

/**
 * Whether a fingerprint has the form of a derived one. All users with the same address and the same browser share a
 * derived fingerprint, so it does not prove who took a place.
 */
export function isDerivedFingerprint(device: string): boolean {
  return DERIVED.test(device);
}
