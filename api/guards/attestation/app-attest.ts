import { verifyAssertion, verifyAttestation } from 'node-app-attest';
import type { AppleApp, Platforms } from '../../../shared/config/platforms.js';
import type { DeviceId } from '../../../shared/domain/ids.js';
import type { AttestedKey, AttestedKeys } from './attested-keys.js';

/** Of an app's first call the attestation of its key; afterwards assertions by that key. Both in base64, over the nonce's text. */
export type AppAttestProof = { kind: 'app_attest'; nonce: string; key_id: string } & (
  | { attestation: string }
  | { assertion: string }
);
type AppAttestConfig = NonNullable<Platforms['appAttest']>;

/**
 * Apple's App Attest. A key is bound to the device that it was first shown for, so that one phone is one device, and what it
 * has signed counts up, so that a copy is noticed. The chain to Apple's root, nonce, app and key are the library's work; dates of
 * certificates are not looked at: the nonce, minutes old and ours, dates the leaf.
 */
export class AppAttest {
  constructor(
    readonly config: AppAttestConfig,
    readonly keys: AttestedKeys,
  ) {}

  /** @returns why it is not believed; null = it is. @throws EngineUnavailable */
  async distrust(proof: AppAttestProof, device: DeviceId): Promise<string | null> {
    return 'attestation' in proof
      ? this.#attest(proof.nonce, proof.key_id, proof.attestation, device)
      : this.#assert(proof.nonce, proof.key_id, proof.assertion, device);
  }

  async #attest(nonce: string, keyId: string, attestation: string, device: DeviceId): Promise<string | null> {
    const key = attestedKey(this.config, nonce, keyId, attestation, device);
    if (key === null) return 'the attestation is not valid';
    const kept = await this.keys.keep(keyId, key);
    return kept.device === device ? null : 'the key belongs to another device';
  }

  async #assert(nonce: string, keyId: string, assertion: string, device: DeviceId): Promise<string | null> {
    const key = await this.keys.find(keyId);
    if (key === null) return 'the key is not known; attest a new one';
    if (key.device !== device) return 'the key belongs to another device';
    const uses = usesOf(this.config, key, nonce, assertion);
    if (uses === null) return 'the assertion is not valid';
    return (await this.keys.advance(keyId, uses)) ? null : 'the key has signed more often before';
  }
}

/** The key that Apple vouches for, for one of these apps and over this nonce; null = it does not. */
export function attestedKey(
  { apps, allowDevelopment }: AppAttestConfig,
  nonce: string,
  keyId: string,
  attestation: string,
  device: DeviceId,
): AttestedKey | null {
  for (const { team, bundle } of apps) {
    try {
      const { publicKey } = verifyAttestation({
        attestation: Buffer.from(attestation, 'base64'),
        challenge: nonce,
        keyId,
        bundleIdentifier: bundle,
        teamIdentifier: team,
        allowDevelopmentEnvironment: allowDevelopment,
      });
      return { publicKey: String(publicKey), app: `${team}.${bundle}`, device };
    } catch {
      // What is not an attestation, or one of another app, throws; there may be another app.
    }
  }
  return null;
}

/** How often the key has signed by now; null = it has not signed this. */
function usesOf({ apps }: AppAttestConfig, key: AttestedKey, nonce: string, assertion: string): number | null {
  const app = apps.find(({ team, bundle }: AppleApp) => `${team}.${bundle}` === key.app);
  if (!app) return null;
  try {
    const { signCount } = verifyAssertion({
      assertion: Buffer.from(assertion, 'base64'),
      payload: nonce,
      publicKey: key.publicKey,
      bundleIdentifier: app.bundle,
      teamIdentifier: app.team,
      // What was counted before is compared in Redis, for all processes.
      signCount: 0,
    });
    return typeof signCount === 'number' ? signCount : null;
  } catch {
    return null;
  }
}
