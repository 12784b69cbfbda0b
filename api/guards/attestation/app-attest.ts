import type { AppleApp, Platforms } from '../../../shared/config/platforms.js';
import type { DeviceId } from '../../../shared/domain/ids.js';
import type { AttestedKey, AttestedKeys } from './attested-keys.js';

/**
 * An app's first call sends the attestation of its key; later calls send assertions by this key. Both are base64 and
 * sign the text of the nonce.
 */
export type AppAttestProof = { kind: 'app_attest'; nonce: string; key_id: string } & (
  | { attestation: string }
  | { assertion: string }
);
type AppAttestConfig = NonNullable<Platforms['appAttest']>;
type Library = typeof import('node-app-attest');

/**
 * Verifies Apple's App Attest. A key is bound to the device of its first attestation, so that one phone is one device.
 * Its counter of signatures must rise, which reveals a copied key. The library verifies the chain to Apple's root, the
 * nonce, the app and the key. It does not check the dates of certificates; the nonce, which is only minutes old, dates
 * the leaf.
 */
export class AppAttest {
  /** Loaded where it is configured: it takes half a second of CPU time, which other installations do without. */
  readonly #library: Promise<Library> = import('node-app-attest');

  constructor(
    readonly config: AppAttestConfig,
    readonly keys: AttestedKeys,
  ) {}

  /** @returns why the proof is not trusted; null = it is trusted. @throws EngineUnavailable */
  async distrust(proof: AppAttestProof, device: DeviceId): Promise<string | null> {
    return 'attestation' in proof
      ? this.#attest(proof.nonce, proof.key_id, proof.attestation, device)
      : this.#assert(proof.nonce, proof.key_id, proof.assertion, device);
  }

  async #attest(nonce: string, keyId: string, attestation: string, device: DeviceId): Promise<string | null> {
    const key = attestedKey(await this.#library, this.config, nonce, keyId, attestation, device);
    if (key === null) return 'the attestation is not valid';
    const kept = await this.keys.keep(keyId, key);
    return kept.device === device ? null : 'the key belongs to another device';
  }

  async #assert(nonce: string, keyId: string, assertion: string, device: DeviceId): Promise<string | null> {
    const key = await this.keys.find(keyId);
    if (key === null) return 'the key is unknown; attest a new one';
    if (key.device !== device) return 'the key belongs to another device';
    const uses = usesOf(await this.#library, this.config, key, nonce, assertion);
    if (uses === null) return 'the assertion is not valid';
    return (await this.keys.advance(keyId, uses)) ? null : 'the counter of the key is not higher than before';
  }
}

/**
 * Returns the key that Apple attests for one of the configured apps and this nonce; null = the attestation is not
 * valid.
 */
export function attestedKey(
  { verifyAttestation }: Library,
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
      // The library throws for an invalid attestation and for one of another app. The next app is tried.
    }
  }
  return null;
}

/** Returns the counter of an assertion's key; null = the assertion is not valid. */
function usesOf(
  { verifyAssertion }: Library,
  { apps }: AppAttestConfig,
  key: AttestedKey,
  nonce: string,
  assertion: string,
): number | null {
  const app = apps.find(({ team, bundle }: AppleApp) => `${team}.${bundle}` === key.app);
  if (!app) return null;
  try {
    const { signCount } = verifyAssertion({
      assertion: Buffer.from(assertion, 'base64'),
      payload: nonce,
      publicKey: key.publicKey,
      bundleIdentifier: app.bundle,
      teamIdentifier: app.team,
      // Redis compares the counter with the previous one, for all processes.
      signCount: 0,
    });
    return typeof signCount === 'number' ? signCount : null;
  } catch {
    return null;
  }
}
