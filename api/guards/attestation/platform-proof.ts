import { randomUUID } from 'node:crypto';
import type { DeviceId } from '../../../shared/domain/ids.js';
import { Problem } from '../../../shared/errors/catalogue.js';
import type { AppAttest, AppAttestProof } from './app-attest.js';
import type { ChallengeFor, Challenges } from './challenges.js';
import type { PlatformNonces } from './platform-nonces.js';
import type { PlayIntegrity, PlayIntegrityProof } from './play-integrity.js';

/** An attestation by the platform over a nonce of this server. */
export type PlatformProof = AppAttestProof | PlayIntegrityProof;

export type PlatformDeps = {
  nonces: PlatformNonces;
  /** Records used nonces. */
  challenges: Pick<Challenges, 'claim'>;
  appAttest: AppAttest | null;
  playIntegrity: PlayIntegrity | null;
  onOutcome: (outcome: 'asked' | 'passed' | 'failed') => void;
};

/** Demands and verifies the attestation of app and device by Apple or Google. */
export class PlatformAttestation {
  constructor(readonly deps: PlatformDeps) {}

  get #platforms(): PlatformProof['kind'][] {
    const { appAttest, playIntegrity } = this.deps;
    return [...(appAttest ? (['app_attest'] as const) : []), ...(playIntegrity ? (['play_integrity'] as const) : [])];
  }

  /** Returns a refusal with a new nonce. */
  demand(what: ChallengeFor, why: string): Problem {
    const { nonce, expiresAt } = this.deps.nonces.make(what);
    this.deps.onOutcome('asked');
    const challenge = { kind: 'platform', nonce, expires_at: expiresAt, platforms: this.#platforms };
    return new Problem('challenge_required', why, { members: { challenge } });
  }

  /** Verifies an attestation. @throws Problem 403 with a new nonce if it is not trusted · EngineUnavailable */
  async require(proof: PlatformProof, device: DeviceId, product: string): Promise<void> {
    const why = await this.#distrust(proof, device, product);
    this.deps.onOutcome(why === null ? 'passed' : 'failed');
    if (why !== null) throw this.demand({ product, subject: device }, `The device is not attested: ${why}.`);
  }

  /** Consumes the nonce before it verifies the signature, because verifying costs more than issuing a new nonce. */
  async #distrust(proof: PlatformProof, device: DeviceId, product: string): Promise<string | null> {
    const { nonces, challenges, appAttest, playIntegrity } = this.deps;
    if (!nonces.isValid(proof.nonce, { product, subject: device }))
      return 'the nonce is expired or not for this device and campaign';
    if (!(proof.kind === 'app_attest' ? appAttest : playIntegrity)) return 'its platform is not configured';
    if ((await challenges.claim(`p:${proof.nonce}`, randomUUID(), nonces.lifeMs + 60_000)) !== 'first')
      return 'the nonce was already used';
    if (proof.kind === 'app_attest') return appAttest?.distrust(proof, device) ?? null;
    return playIntegrity?.distrust(proof) ?? null;
  }
}
