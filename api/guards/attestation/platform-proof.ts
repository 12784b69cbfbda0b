import { randomUUID } from 'node:crypto';
import type { DeviceId } from '../../../shared/domain/ids.js';
import { Problem } from '../../../shared/errors/catalogue.js';
import type { AppAttest, AppAttestProof } from './app-attest.js';
import type { ChallengeFor, Challenges } from './challenges.js';
import type { PlatformNonces } from './platform-nonces.js';
import type { PlayIntegrity, PlayIntegrityProof } from './play-integrity.js';

/** What an app got from its platform over a nonce of ours. */
export type PlatformProof = AppAttestProof | PlayIntegrityProof;

export type PlatformDeps = {
  nonces: PlatformNonces;
  /** Remembers which were used. */
  challenges: Pick<Challenges, 'claim'>;
  appAttest: AppAttest | null;
  playIntegrity: PlayIntegrity | null;
  onOutcome: (outcome: 'asked' | 'passed' | 'failed') => void;
};

/** Attestation of app and device by Apple or Google: asks for it, and judges it. */
export class PlatformAttestation {
  constructor(readonly deps: PlatformDeps) {}

  /** Whether anybody's is believed here. */
  get isSetUp(): boolean {
    return this.#platforms.length > 0;
  }

  get #platforms(): PlatformProof['kind'][] {
    const { appAttest, playIntegrity } = this.deps;
    return [...(appAttest ? (['app_attest'] as const) : []), ...(playIntegrity ? (['play_integrity'] as const) : [])];
  }

  /** The refusal that carries a new nonce. */
  demand(what: ChallengeFor, why: string): Problem {
    const { nonce, expiresAt } = this.deps.nonces.make(what);
    this.deps.onOutcome('asked');
    const challenge = { kind: 'platform', nonce, expires_at: expiresAt, platforms: this.#platforms };
    return new Problem('challenge_required', why, { members: { challenge } });
  }

  /** @throws Problem 403 when it is not believed, with a new nonce; EngineUnavailable */
  async require(proof: PlatformProof, device: DeviceId, product: string): Promise<void> {
    const why = await this.#distrust(proof, device, product);
    this.deps.onOutcome(why === null ? 'passed' : 'failed');
    if (why !== null) throw this.demand({ product, subject: device }, `The device is not attested: ${why}.`);
  }

  /** A nonce is used up before it is looked at what was signed: judging a signature costs more than being asked again. */
  async #distrust(proof: PlatformProof, device: DeviceId, product: string): Promise<string | null> {
    const { nonces, challenges, appAttest, playIntegrity } = this.deps;
    if (!nonces.isValid(proof.nonce, { product, subject: device }))
      return 'the nonce is not ours for this device and campaign, or too old';
    if (!(proof.kind === 'app_attest' ? appAttest : playIntegrity)) return 'its platform is not set up here';
    if (!(await challenges.claim(`p:${proof.nonce}`, randomUUID(), nonces.lifeMs + 60_000)))
      return 'the nonce was used';
    if (proof.kind === 'app_attest') return appAttest?.distrust(proof, device) ?? null;
    return playIntegrity?.distrust(proof) ?? null;
  }
}
