import { randomUUID } from 'node:crypto';
import type { AttestationLevel } from '../../../shared/domain/campaign-policy.js';
import type { DeviceId } from '../../../shared/domain/ids.js';
import type { Attestation } from '../attestation/attestation.js';
import type { Challenges } from '../attestation/challenges.js';
import type { PlatformAttestation, PlatformProof } from '../attestation/platform-proof.js';

/** A request for a device token, with its proof. */
export type TokenRequest = {
  device: DeviceId;
  network: string;
  /** "" = no campaign */
  product: string;
  /** Solution of a challenge, as sent; null = none */
  solution: string | null;
  /** Attestation by Apple or Google; null = none */
  platform: PlatformProof | null;
};

/** Verifies that a device has earned the level of its token. @throws Problem 403 if it has not */
export type DeviceProof = (request: TokenRequest) => Promise<void>;

/** Level 0: no proof is required. */
export const selfDeclared: DeviceProof = async () => {};

/** Level 1: one solved challenge per token. */
export function proofOfWork(challenges: Challenges): DeviceProof {
  return async ({ device, network, product, solution }) => {
    const what = { product, subject: device, network };
    if (solution !== null && (await challenges.use(solution, what, randomUUID())) === 'passed') return;
    throw await challenges.demand(
      what,
      solution === null ? 'A token currently requires a proof of work.' : 'The solution is not valid.',
    );
  };
}

/** Level 2: one attestation of app and device by Apple or Google per token. */
export function platformAttested(attestation: PlatformAttestation): DeviceProof {
  return async ({ device, product, platform }) => {
    if (platform !== null) return attestation.require(platform, device, product);
    throw attestation.demand(
      { product, subject: device },
      'This campaign requires an attestation of the app by its platform.',
    );
  };
}

/** Issues device tokens, with a proof for each level. */
export class TokenIssuer {
  constructor(
    readonly attestation: Attestation,
    readonly proofs: Readonly<Record<AttestationLevel, DeviceProof>>,
  ) {}

  /**
   * Returns a token.
   * @param isUnderAttack whether a token of level 0 also requires a proof of work
   * @throws Problem 403 if the proof is missing or not valid
   */
  async issue(
    level: AttestationLevel,
    request: TokenRequest,
    expiresAtSeconds: number,
    isUnderAttack: boolean,
  ): Promise<string> {
    await this.proofs[level === 0 && isUnderAttack ? 1 : level](request);
    const { device, product } = request;
    return level === 0
      ? this.attestation.sign(device, expiresAtSeconds)
      : this.attestation.signProven(level, device, expiresAtSeconds, product);
  }
}
