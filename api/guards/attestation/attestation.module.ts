import { LIMITS } from '../../../shared/config/limits.js';
import type { Core } from '../../core.js';
import { DerivedDevices } from '../caller/fingerprint.js';
import { AppAttest } from './app-attest.js';
import { Attestation } from './attestation.js';
import { AttestedKeys } from './attested-keys.js';
import { Challenges } from './challenges.js';
import { HumanChallenges } from './human-challenges.js';
import { PlatformNonces } from './platform-nonces.js';
import { PlatformAttestation } from './platform-proof.js';
import { PlayIntegrity } from './play-integrity.js';

/** Verifies what devices prove. */
export type Attestations = {
  /** Signs and verifies device tokens. */
  tokens: Attestation;
  /** The devices of requests that name none. */
  devices: DerivedDevices;
  challenges: Challenges;
  /** Challenges that a person solves; null = no provider is configured. */
  human: HumanChallenges | null;
  /** Verifies what iOS and Android attest. */
  platform: PlatformAttestation;
};

/** @param attempts at a product, per second; challenges get harder as they grow */
export function attestationModule(
  { config, clock, log, metrics, shards }: Core,
  attempts: { perSecond(product: string, network?: string): number },
): Attestations {
  const nowMs = () => clock.nowMs();
  const { appAttest, playIntegrity } = config.platforms;
  const { challengeProvider: provider } = config;
  const challenges = new Challenges({
    keys: config.attestationKeys,
    shards,
    nowMs,
    perSecond: (product, network) => attempts.perSecond(product, network),
    onOutcome: (outcome) => metrics.challenges.inc({ outcome }),
    limits: LIMITS.attestation,
  });
  const keys = new AttestedKeys(shards, LIMITS.attestation.attestedKeyMs);
  return {
    tokens: new Attestation(config.attestationKeys),
    devices: new DerivedDevices(config.attestationKeys),
    challenges,
    human:
      provider &&
      new HumanChallenges({
        ...{ provider, challenges, log },
        onOutcome: (outcome) => metrics.challenges.inc({ outcome: `human_${outcome}` }),
      }),
    platform: new PlatformAttestation({
      nonces: new PlatformNonces(config.attestationKeys, nowMs, LIMITS.attestation.challengeLifeMs),
      challenges,
      appAttest: appAttest && new AppAttest(appAttest, keys),
      playIntegrity: playIntegrity && new PlayIntegrity(playIntegrity, nowMs, LIMITS.attestation.challengeLifeMs),
      onOutcome: (outcome) => metrics.challenges.inc({ outcome: `platform_${outcome}` }),
    }),
  };
}
