import { z } from 'zod';

/** Where the services for challenges that a person solves are, by their documentation. */
const SERVICES = {
  turnstile: {
    script: 'https://challenges.cloudflare.com/turnstile/v0/api.js',
    verify: 'https://challenges.cloudflare.com/turnstile/v0/siteverify',
    sources: ['https://challenges.cloudflare.com'],
  },
  hcaptcha: {
    script: 'https://js.hcaptcha.com/1/api.js',
    verify: 'https://api.hcaptcha.com/siteverify',
    sources: ['https://hcaptcha.com', 'https://*.hcaptcha.com'],
  },
} as const;
type ProviderName = keyof typeof SERVICES;
const PROVIDER_NAMES = Object.keys(SERVICES) as [ProviderName, ...ProviderName[]];

/** A service whose challenges a person solves. */
export type ChallengeProvider = {
  name: ProviderName;
  siteKey: string;
  secret: string;
  /** URL of the script that shows the challenge in a page. */
  script: string;
  /** URL of the call that verifies a solution. */
  verify: string;
  /** Sources that the page's content security policy must allow. */
  sources: readonly string[];
};

/** The environment variables for challenges that a person solves (docs/challenges.md). */
export const CHALLENGE_ENVIRONMENT = {
  CHALLENGE_PROVIDER: z
    .enum(PROVIDER_NAMES, `must be one of ${PROVIDER_NAMES.join(', ')}`)
    .optional()
    .describe(
      'service whose challenges a person solves, for campaigns with `risk: strict`: `turnstile` (Cloudflare) or `hcaptcha`',
    ),
  CHALLENGE_SITE_KEY: z.string().max(256).optional().describe('public key of this site at CHALLENGE_PROVIDER'),
  CHALLENGE_SECRET: z.string().max(256).optional().describe('secret key at CHALLENGE_PROVIDER'),
  CHALLENGE_ORIGIN: z
    .string()
    .refine(
      (text) => URL.canParse(text) && new URL(text).origin === text,
      'must be an origin such as https://challenges.example',
    )
    .optional()
    .describe('origin of a proxy in front of CHALLENGE_PROVIDER; unset = its own'),
};
export type ChallengeEnvironment = z.infer<z.ZodObject<typeof CHALLENGE_ENVIRONMENT>>;

const NAMES = ['CHALLENGE_PROVIDER', 'CHALLENGE_SITE_KEY', 'CHALLENGE_SECRET'] as const;

/** Problems of these settings that do not fit together. */
export function challengeProblems(given: Record<string, string | undefined>): string[] {
  const missing = NAMES.filter((name) => given[name] === undefined);
  if (missing.length === 0) return [];
  if (missing.length < NAMES.length)
    return missing.map((name) => `${name} is missing: ${NAMES.join(', ')} belong together`);
  return given.CHALLENGE_ORIGIN === undefined ? [] : ['CHALLENGE_ORIGIN has no effect without CHALLENGE_PROVIDER'];
}

/** @param e an environment for which `challengeProblems` found no problem */
export function challengeProviderOf(e: ChallengeEnvironment): ChallengeProvider | null {
  const {
    CHALLENGE_PROVIDER: name,
    CHALLENGE_SITE_KEY: siteKey,
    CHALLENGE_SECRET: secret,
    CHALLENGE_ORIGIN: origin,
  } = e;
  if (!name || !siteKey || !secret) return null;
  const { script, verify, sources } = SERVICES[name];
  if (origin === undefined) return { name, siteKey, secret, script, verify, sources };
  const through = (url: string) => origin + new URL(url).pathname;
  return { name, siteKey, secret, script: through(script), verify: through(verify), sources: [origin] };
}
