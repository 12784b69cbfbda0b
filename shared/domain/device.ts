import type { DeviceId } from './ids.js';

const DERIVED = /^fp-[0-9a-f]{40}$/;

/** Makes the fingerprint of a device that names none. @param digest hexadecimal, of what the request shows */
export function derivedFingerprint(digest: string): DeviceId {
  return `fp-${digest.slice(0, 40)}` as DeviceId;
}

/**
 * Whether a fingerprint has the form of a derived one. Such a fingerprint is no secret: everyone behind the same address
 * with the same browser has the same one, so it proves nothing about who took a place.
 */
export function isDerivedFingerprint(device: string): boolean {
  return DERIVED.test(device);
}
