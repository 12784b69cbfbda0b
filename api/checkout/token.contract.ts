import { z } from 'zod';
import { MAX_NONCE_CHARACTERS } from '../guards/attestation/platform-nonces.js';
import { challengeSolution, externalId, requestHeaders } from '../http/fields.js';
import type { RouteContract } from '../http/route.js';

const TOKEN_PATH = '/flash-sale/token';
/** An attestation of about 9 KiB in base64; a Play Integrity token has 2 KiB. */
const MAX_PROOF_CHARACTERS = 12_288;
const MAX_ASSERTION_CHARACTERS = 1_024;

export const tokenQuery = z.object({
  device_fp: externalId.optional(),
  product_id: externalId.optional().describe('campaign of the token, for campaigns with `limits.attestation_level`'),
});

const base64 = (most: number) =>
  z
    .string()
    .min(1, 'must not be empty')
    .max(most, `must have at most ${most} characters`)
    .regex(/^[A-Za-z0-9+/]+={0,2}$/, 'must be base64');
const nonce = z
  .string()
  .max(MAX_NONCE_CHARACTERS, 'is not a valid nonce')
  .regex(/^[\w-]+$/, 'is not a valid nonce')
  .describe('nonce of the challenge');

const appAttest = z
  .object({
    kind: z.literal('app_attest'),
    nonce,
    key_id: z.string().regex(/^[A-Za-z0-9+/]{43}=$/, 'must be base64 of 32 bytes'),
    attestation: base64(MAX_PROOF_CHARACTERS)
      .optional()
      .describe('in the first call: attestation of the key, over SHA-256 of the nonce'),
    assertion: base64(MAX_ASSERTION_CHARACTERS)
      .optional()
      .describe('in later calls: assertion by the key, over SHA-256 of the nonce'),
  })
  .transform(({ attestation, assertion, ...rest }, context) => {
    if (attestation !== undefined && assertion === undefined) return { ...rest, attestation };
    if (assertion !== undefined && attestation === undefined) return { ...rest, assertion };
    context.addIssue({ code: 'custom', path: ['attestation'], message: 'send either `attestation` or `assertion`' });
    return z.NEVER;
  });
const playIntegrity = z.object({
  kind: z.literal('play_integrity'),
  nonce,
  token: z
    .string()
    .max(MAX_PROOF_CHARACTERS, `must have at most ${MAX_PROOF_CHARACTERS} characters`)
    .regex(/^[\w-]+(\.[\w-]*){4}$/, 'must be an encrypted token')
    .describe('token of a classic request with this nonce'),
});

export const tokenBody = z
  .object({
    device_fp: externalId.optional(),
    product_id: externalId.optional(),
    challenge_solution: challengeSolution.optional(),
    platform: z.discriminatedUnion('kind', [appAttest, playIntegrity]).optional(),
  })
  .refine(({ platform, product_id }) => platform === undefined || product_id !== undefined, {
    path: ['product_id'],
    message: 'is required with `platform`',
  });

const DESCRIPTION =
  'Without `device_fp` the device is read from `X-Device-Fingerprint` or else derived from the request, and returned. ' +
  'A campaign with `limits.attestation_level` requires a token for this campaign: name it in `product_id`, solve the ' +
  '`challenge` of the 403 and repeat the request with the solution. Such a token is valid for one user. During an attack ' +
  'every token requires a solved challenge.';

const common = {
  path: TOKEN_PATH,
  tag: 'flash sale',
  caller: 'anyone',
  guards: ['network_ban', 'token_quota'],
  answers: {
    200: {
      description: 'The token is valid for 30 s; clocks may differ by 30 s.',
      headers: ['RateLimit', 'RateLimit-Policy'],
      data: z
        .object({ attestation: z.string(), expires_at: z.int().describe('Unix seconds'), device_fp: z.string() })
        .meta({ id: 'DeviceToken' }),
    },
  },
  errors: ['invalid_request', 'challenge_required'],
} as const satisfies Partial<RouteContract>;

export const tokenContract = {
  ...common,
  operationId: 'getDeviceToken',
  method: 'get',
  summary: 'A device token for checkout',
  description: `${DESCRIPTION} Send a solution in \`X-Challenge-Solution\`.`,
  query: tokenQuery,
  headers: z.object({
    'x-device-fingerprint': requestHeaders['x-device-fingerprint'],
    'x-challenge-solution': challengeSolution.optional(),
  }),
} satisfies RouteContract;

export const provenTokenContract = {
  ...common,
  operationId: 'proveDevice',
  method: 'post',
  summary: 'A device token with a proof in the body',
  description:
    `${DESCRIPTION} For \`attestation_level: 2\` the challenge is a \`nonce\` that Apple (App Attest) or Google (Play Integrity) ` +
    'signs in the app; send the result in `platform`.',
  headers: z.object(requestHeaders).pick({ 'x-device-fingerprint': true }),
  body: tokenBody,
  bodyExample: { device_fp: '9f0c2c1e-6a53-4f0e-9c0e-8d1f5a3b7e21', product_id: 'flash-indomie-2026' },
} satisfies RouteContract;
