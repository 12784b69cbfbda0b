import { compactDecrypt, compactVerify } from 'jose';
import { z } from 'zod';
import type { Platforms } from '../../../shared/config/platforms.js';

/** The token of a classic request to the Play Integrity API, as the app received it. */
export type PlayIntegrityProof = { kind: 'play_integrity'; nonce: string; token: string };
type PlayIntegrityConfig = NonNullable<Platforms['playIntegrity']>;

const DEVICE_VERDICTS = ['MEETS_DEVICE_INTEGRITY', 'MEETS_STRONG_INTEGRITY'];
/** Maximum time by which the token's timestamp may be ahead of the clock of Redis. */
const AHEAD_MS = 60_000;

const verdictForm = z.object({
  requestDetails: z.object({
    requestPackageName: z.string(),
    nonce: z.string(),
    timestampMillis: z.coerce.number(),
  }),
  appIntegrity: z.object({
    appRecognitionVerdict: z.string(),
    packageName: z.string().optional(),
    certificateSha256Digest: z.array(z.string()).optional(),
  }),
  deviceIntegrity: z.object({ deviceRecognitionVerdict: z.array(z.string()).default([]) }),
  accountDetails: z.object({ appLicensingVerdict: z.string() }).optional(),
});

/**
 * Verifies Google's Play Integrity without a call to Google: a classic token is encrypted and signed with keys of the
 * Play Console. It proves that the app and the device are genuine, but it does not identify the device.
 */
export class PlayIntegrity {
  constructor(
    readonly config: PlayIntegrityConfig,
    readonly nowMs: () => number,
    readonly lifeMs: number,
  ) {}

  /** @returns why the proof is not trusted; null = it is trusted */
  async distrust({ nonce, token }: PlayIntegrityProof): Promise<string | null> {
    const verdict = verdictForm.safeParse(await this.#open(token)).data;
    if (!verdict) return 'the token is not valid';
    const { requestDetails, appIntegrity, deviceIntegrity, accountDetails } = verdict;
    const { packageName, certificates } = this.config;
    if (requestDetails.nonce.replace(/=+$/, '') !== nonce) return 'the token is for another nonce';
    if (requestDetails.requestPackageName !== packageName || appIntegrity.packageName !== packageName)
      return 'the token is for another app';
    const ageMs = this.nowMs() - requestDetails.timestampMillis;
    if (!(ageMs <= this.lifeMs && ageMs >= -AHEAD_MS)) return 'the token is too old';
    const signedBy = (appIntegrity.certificateSha256Digest ?? []).map((digest) => digest.replace(/=+$/, ''));
    if (appIntegrity.appRecognitionVerdict !== 'PLAY_RECOGNIZED' || !signedBy.some((one) => certificates.includes(one)))
      return 'the app is not the version from the store';
    if (!deviceIntegrity.deviceRecognitionVerdict.some((one) => DEVICE_VERDICTS.includes(one)))
      return 'the device is not genuine';
    return accountDetails?.appLicensingVerdict === 'UNLICENSED' ? 'the app was not installed from the store' : null;
  }

  /** Returns the decrypted verdict; null = not encrypted or not signed with the configured keys. */
  async #open(token: string): Promise<unknown> {
    for (const decryptionKey of this.config.decryptionKeys) {
      const algorithms = { keyManagementAlgorithms: ['A256KW'], contentEncryptionAlgorithms: ['A256GCM'] };
      const jws = await compactDecrypt(token, decryptionKey, algorithms).then(
        ({ plaintext }) => plaintext,
        () => null,
      );
      if (jws === null) continue;
      for (const verificationKey of this.config.verificationKeys) {
        try {
          const { payload } = await compactVerify(jws, verificationKey, { algorithms: ['ES256'] });
          return JSON.parse(new TextDecoder().decode(payload));
        } catch {
          // The signature does not match this key. The next key is tried.
        }
      }
    }
    return null;
  }
}
