import { createHash, generateKeyPairSync, randomBytes } from 'node:crypto';
import { CompactEncrypt, CompactSign } from 'jose';

// A Google of our own: it says what Play Integrity says, in the documented form of a classic request's token (a JWS by
// ES256 inside of a JWE by A256KW and A256GCM), with keys of the test. No recorded answer of Google's was at hand.

export const PACKAGE = 'com.example.shop';
const CERTIFICATE = createHash('sha256').update('the certificate of the app').digest();

export class TestGoogle {
  readonly #encryption = randomBytes(32);
  readonly #signing = generateKeyPairSync('ec', { namedCurve: 'P-256' });

  /** The settings that the Play console would show. */
  get env(): Record<string, string> {
    return {
      PLAY_INTEGRITY_PACKAGE: PACKAGE,
      PLAY_INTEGRITY_CERTIFICATES: CERTIFICATE.toString('hex').toUpperCase().match(/../g)?.join(':') ?? '',
      PLAY_INTEGRITY_DECRYPTION_KEY: this.#encryption.toString('base64'),
      PLAY_INTEGRITY_VERIFICATION_KEY: this.#signing.publicKey
        .export({ type: 'spki', format: 'der' })
        .toString('base64'),
    };
  }

  /** @param parts of the payload that differ from that of a genuine phone */
  async vouch(nonce: string, parts: Record<string, Record<string, unknown>> = {}) {
    const payload = {
      requestDetails: {
        requestPackageName: PACKAGE,
        nonce,
        timestampMillis: String(Date.now()),
        ...parts.requestDetails,
      },
      appIntegrity: {
        appRecognitionVerdict: 'PLAY_RECOGNIZED',
        packageName: PACKAGE,
        certificateSha256Digest: [CERTIFICATE.toString('base64url')],
        versionCode: '42',
        ...parts.appIntegrity,
      },
      deviceIntegrity: { deviceRecognitionVerdict: ['MEETS_DEVICE_INTEGRITY'], ...parts.deviceIntegrity },
      accountDetails: { appLicensingVerdict: 'LICENSED', ...parts.accountDetails },
    };
    const jws = await new CompactSign(Buffer.from(JSON.stringify(payload)))
      .setProtectedHeader({ alg: 'ES256' })
      .sign(this.#signing.privateKey);
    const token = await new CompactEncrypt(Buffer.from(jws))
      .setProtectedHeader({ alg: 'A256KW', enc: 'A256GCM' })
      .encrypt(this.#encryption);
    return { kind: 'play_integrity', nonce, token };
  }
}
