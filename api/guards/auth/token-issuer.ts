import { randomUUID } from 'node:crypto';
import type { AttestationLevel } from '../../../shared/domain/campaign-policy.js';
import type { DeviceId } from '../../../shared/domain/ids.js';
import type { Attestation } from '../attestation/attestation.js';
import type { Challenges } from '../attestation/challenges.js';
import type { PlatformAttestation, PlatformProof } from '../attestation/platform-proof.js';

/** Somebody who wants a token, with what he has to show for it. */
export type TokenRequest = {
  device: DeviceId;
  /** "" = for no campaign */
  product: string;
  /** of a challenge, as it was sent; null = none */
  solution: string | null;
  /** of Apple or Google; null = none */
  platform: PlatformProof | null;
};

/** How a device proves what its token will say. @throws Problem 403 when it does not */
export type DeviceProof = (request: TokenRequest) => Promise<void>;

/** Level 0: it says so itself. */
export const selfDeclared: DeviceProof = async () => {};

/** Level 1: somebody has solved a challenge, once for each token. */
export function proofOfWork(challenges: Challenges): DeviceProof {
  return async ({ device, product, solution }) => {
    const what = { product, subject: device };
    if (solution !== null && (await challenges.use(solution, what, randomUUID())) === 'passed') return;
    throw await challenges.demand(
      what,
      solution === null ? 'A token costs a proof of work here and now.' : 'The solution is not valid.',
    );
  };
}

/** Level 2: Apple or Google vouch for the app and the device, once for each token. */
export function platformAttested(attestation: PlatformAttestation): DeviceProof {
  return async ({ device, product, platform }) => {
    if (platform !== null) return attestation.require(platform, device, product);
    throw attestation.demand(
      { product, subject: device },
      'This campaign wants the app to be attested by its platform.',
    );
  };
}

/** Issues device tokens. A proof for each level is plugged in here. */
export class TokenIssuer {
  constructor(
    readonly attestation: Attestation,
    readonly proofs: Readonly<Record<AttestationLevel, DeviceProof>>,
  ) {}

  /**
   * @param isUnderAttack then also a token of level 0 costs work
   * @throws Problem 403 when the proof is missing or not valid
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
