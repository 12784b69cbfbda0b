import { createPublicKey, type KeyObject } from 'node:crypto';
import { z } from 'zod';

/** Platforms whose attestation of a device is accepted (level 2); null = not configured. */
export type Platforms = {
  appAttest: { apps: readonly AppleApp[]; allowDevelopment: boolean } | null;
  playIntegrity: {
    packageName: string;
    /** SHA-256 of the certificates that the app is signed with, base64url. */
    certificates: readonly string[];
    decryptionKeys: readonly Uint8Array[];
    verificationKeys: readonly KeyObject[];
  } | null;
};
export type AppleApp = { team: string; bundle: string };

const PLAY_NAMES = [
  'PLAY_INTEGRITY_PACKAGE',
  'PLAY_INTEGRITY_CERTIFICATES',
  'PLAY_INTEGRITY_DECRYPTION_KEY',
  'PLAY_INTEGRITY_VERIFICATION_KEY',
] as const;
const AES_BYTES = 32;
const SHA256_BYTES = 32;

/** A comma-separated list. @param read parses one part; null = not valid */
const listOf = <Value>(read: (part: string) => Value | null, message: string) =>
  z.string().transform((value, context): Value[] => {
    const values: Value[] = [];
    for (const part of value.split(',')) {
      const one = read(part.trim());
      if (one === null) context.addIssue({ code: 'custom', message });
      else values.push(one);
    }
    return values;
  });

function appleApp(text: string): AppleApp | null {
  const [, team, bundle] = /^([A-Z0-9]{10})\.([A-Za-z0-9.-]+)$/.exec(text) ?? [];
  return team && bundle ? { team, bundle } : null;
}

/**
 * Reads a digest as the Play console shows it (hexadecimal, with or without colons), or as the verdict has it
 * (base64url).
 */
function certificateDigest(text: string): string | null {
  const hex = text.replaceAll(':', '');
  const bytes = /^[0-9a-fA-F]{64}$/.test(hex) ? Buffer.from(hex, 'hex') : Buffer.from(text, 'base64url');
  return bytes.length === SHA256_BYTES ? bytes.toString('base64url') : null;
}

function aesKey(text: string): Uint8Array | null {
  const key = Buffer.from(text, 'base64');
  return key.length === AES_BYTES ? new Uint8Array(key) : null;
}

function publicKey(text: string): KeyObject | null {
  try {
    const key = createPublicKey({ key: Buffer.from(text, 'base64'), format: 'der', type: 'spki' });
    return key.asymmetricKeyDetails?.namedCurve === 'prime256v1' ? key : null;
  } catch {
    return null;
  }
}

/** The environment variables for platform attestation (docs/attestation.md). */
export const PLATFORM_ENVIRONMENT = {
  APP_ATTEST_APP_IDS: listOf(appleApp, 'must be team.bundle (ABCDE12345.com.example.shop), comma-separated')
    .optional()
    .describe(
      'iOS apps whose App Attest is believed, comma-separated `team.bundle`; needed for `attestation_level: 2`',
    ),
  APP_ATTEST_ENVIRONMENT: z
    .enum(['production', 'development'], 'must be production or development')
    .default('production')
    .describe('`development` also believes apps that were run from Xcode'),
  PLAY_INTEGRITY_PACKAGE: z
    .string()
    .regex(/^[A-Za-z]\w*(\.[A-Za-z]\w*)+$/, 'must be the name of a package (com.example.shop)')
    .optional()
    .describe('Android app whose Play Integrity verdicts are believed; needs the three below'),
  PLAY_INTEGRITY_CERTIFICATES: listOf(certificateDigest, 'must be SHA-256 digests, comma-separated')
    .optional()
    .describe('SHA-256 of the certificates that this app is signed with, comma-separated, hexadecimal or base64url'),
  PLAY_INTEGRITY_DECRYPTION_KEY: listOf(aesKey, 'must be base64 of 32 bytes, comma-separated')
    .optional()
    .describe('response decryption key of the Play console, base64; comma-separated while it is changed'),
  PLAY_INTEGRITY_VERIFICATION_KEY: listOf(publicKey, 'must be base64 of a P-256 public key, comma-separated')
    .optional()
    .describe('response verification key of the Play console, base64; comma-separated while it is changed'),
};
export type PlatformEnvironment = z.infer<z.ZodObject<typeof PLATFORM_ENVIRONMENT>>;

/** Problems of platform settings that do not fit together. */
export function platformProblems(given: Record<string, string | undefined>): string[] {
  const missing = PLAY_NAMES.filter((name) => given[name] === undefined);
  if (missing.length === 0 || missing.length === PLAY_NAMES.length) return [];
  return missing.map((name) => `${name} is missing: Play Integrity needs all of ${PLAY_NAMES.join(', ')}`);
}

export function platformsOf(e: PlatformEnvironment): Platforms {
  return {
    appAttest: e.APP_ATTEST_APP_IDS
      ? { apps: e.APP_ATTEST_APP_IDS, allowDevelopment: e.APP_ATTEST_ENVIRONMENT === 'development' }
      : null,
    playIntegrity: e.PLAY_INTEGRITY_PACKAGE
      ? {
          packageName: e.PLAY_INTEGRITY_PACKAGE,
          certificates: e.PLAY_INTEGRITY_CERTIFICATES ?? [],
          decryptionKeys: e.PLAY_INTEGRITY_DECRYPTION_KEY ?? [],
          verificationKeys: e.PLAY_INTEGRITY_VERIFICATION_KEY ?? [],
        }
      : null,
  };
}
