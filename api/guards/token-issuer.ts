import { randomUUID } from 'node:crypto';
import type { AttestationLevel } from '../../shared/domain/campaign-policy.js';
import type { DeviceId } from '../../shared/domain/ids.js';
import type { Attestation } from './attestation.js';
import type { Challenges } from './challenges.js';

/** Somebody who wants a token, with what he has to show for it. */
export type TokenRequest = {
  device: DeviceId;
  /** "" = for no campaign */
  product: string;
  /** of a challenge, as it was sent; null = none */
  solution: string | null;
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
      solution === null ? 'This campaign wants a proof of work of everybody.' : 'The solution is not valid.',
    );
  };
}

/**
 * Issues device tokens. A proof for each level is plugged in here; one of the platform (App Attest, Play Integrity) would be
 * a third, of level 2.
 */
export class TokenIssuer {
  constructor(
    readonly attestation: Attestation,
    readonly proofs: Readonly<Record<AttestationLevel, DeviceProof>>,
  ) {}

  /** @throws Problem 403 when the proof is missing or not valid */
  async issue(level: AttestationLevel, request: TokenRequest, expiresAtSeconds: number): Promise<string> {
    await this.proofs[level](request);
    const { device, product } = request;
    return level === 0
      ? this.attestation.sign(device, expiresAtSeconds)
      : this.attestation.signWorked(device, expiresAtSeconds, product);
  }
}
