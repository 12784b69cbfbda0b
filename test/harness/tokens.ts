import { createHmac } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { Token } from './clients.js';
import { ATTESTATION_KEY } from './service.js';

/** The key that signs a device token, and its id. */
export type AttestationSigner = { id: string; key: Buffer };
const HARNESS_SIGNER: AttestationSigner = { id: 'a1', key: ATTESTATION_KEY };

/** Signs a device token as the server does (api/guards/attestation/attestation.ts), of any age and with any key. */
export function signToken(device: string, expiresAt: number, { id, key }: AttestationSigner = HARNESS_SIGNER): Token {
  const mac = createHmac('sha256', key).update(`${device}:${expiresAt}`).digest('base64url');
  return { attestation: `${id}.${mac}`, expires_at: expiresAt, device_fp: device };
}

/** Seconds since 1970 by the clock that judges tokens, with their fraction. */
export async function redisSeconds(redis: Redis): Promise<number> {
  const [seconds, micros] = await redis.time();
  return Number(seconds) + Number(micros) / 1_000_000;
}

/** A token that lasts; for shoppers whose token is not what the test is about. */
export function freshToken(device: string): Token {
  return signToken(device, Math.floor(Date.now() / 1000) + 30);
}
