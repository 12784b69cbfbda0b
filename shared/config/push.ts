import { createECDH } from 'node:crypto';
import { z } from 'zod';

const PUBLIC_BYTES = 65;
const PRIVATE_BYTES = 32;
/** The push services of Chrome and its relatives, Firefox, Safari and Edge. */
const SERVICES = 'fcm.googleapis.com,*.push.services.mozilla.com,*.push.apple.com,*.notify.windows.com';

const key = (bytes: number) =>
  z
    .string()
    .refine(
      (text) => /^[A-Za-z0-9_-]+$/.test(text) && Buffer.from(text, 'base64url').length === bytes,
      `must be ${bytes} bytes in base64url; \`npm run push:keys\` makes a pair`,
    )
    .optional();

/** The variables of Web Push, part of the table in environment.ts. */
export const PUSH_ENVIRONMENT = {
  VAPID_SUBJECT: z
    .string()
    .regex(/^(mailto:[^\s@]+@[^\s@]+|https:\/\/\S+)$/, 'must be mailto:<address> or an https URL')
    .optional()
    .describe(
      'contact of this installation for push services: `mailto:ops@shop.example` or an https URL. With the two keys, the sale page offers ' +
        'notifications (docs/push.md)',
    ),
  VAPID_PUBLIC_KEY: key(PUBLIC_BYTES).describe('public key of Web Push; `npm run push:keys` makes a pair'),
  VAPID_PRIVATE_KEY: key(PRIVATE_BYTES).describe('private key of Web Push; the API and the workers need all three'),
  PUSH_SERVICES: z
    .string()
    .regex(/^(\*\.)?[a-z0-9.-]+(,(\*\.)?[a-z0-9.-]+)*$/, 'must be host names such as push.example or *.push.example')
    .default(SERVICES)
    .describe('comma-separated hosts of push services that subscriptions may name; `*.` = every host below it'),
};

/** How this installation sends Web Push messages. */
export type PushConfig = {
  subject: string;
  /** base64url */
  publicKey: string;
  /** base64url */
  privateKey: string;
  /** Hosts of push services; `*.` = every host below it. */
  services: readonly string[];
  /** Whether a subscription may name any URL, for development. */
  anyEndpoint: boolean;
};

const NAMES = ['VAPID_SUBJECT', 'VAPID_PUBLIC_KEY', 'VAPID_PRIVATE_KEY'] as const;

/** Problems of settings of Web Push that do not fit together. */
export function pushProblems(given: Record<string, string | undefined>): string[] {
  const missing = NAMES.filter((name) => given[name] === undefined);
  if (missing.length === NAMES.length) return [];
  if (missing.length > 0) return missing.map((name) => `${name} is missing: ${NAMES.join(', ')} belong together`);
  return isPair(given) ? [] : ['VAPID_PUBLIC_KEY and VAPID_PRIVATE_KEY are not a pair; `npm run push:keys` makes one'];
}

/** Invalid keys are other problems, and count as a pair here. */
function isPair({ VAPID_PUBLIC_KEY = '', VAPID_PRIVATE_KEY = '' }: Record<string, string | undefined>): boolean {
  const secret = Buffer.from(VAPID_PRIVATE_KEY, 'base64url');
  if (secret.length !== PRIVATE_BYTES) return true;
  const curve = createECDH('prime256v1');
  try {
    curve.setPrivateKey(secret);
  } catch {
    return false;
  }
  return curve.getPublicKey('base64url') === VAPID_PUBLIC_KEY;
}

type Given = {
  VAPID_SUBJECT?: string | undefined;
  VAPID_PUBLIC_KEY?: string | undefined;
  VAPID_PRIVATE_KEY?: string | undefined;
  PUSH_SERVICES: string;
};

/** @returns null when Web Push is not set up */
export function pushOf(e: Given, development: boolean): PushConfig | null {
  if (!e.VAPID_SUBJECT || !e.VAPID_PUBLIC_KEY || !e.VAPID_PRIVATE_KEY) return null;
  return {
    subject: e.VAPID_SUBJECT,
    publicKey: e.VAPID_PUBLIC_KEY,
    privateKey: e.VAPID_PRIVATE_KEY,
    services: e.PUSH_SERVICES.split(','),
    anyEndpoint: development,
  };
}
