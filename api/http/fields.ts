import { z } from 'zod';
import { AUDIENCE_LIMITS } from '../../shared/domain/audience.js';
import { EXTERNAL_ID_PATTERN } from '../../shared/domain/ids.js';
import { isCurrency, MAX_AMOUNT } from '../../shared/domain/money.js';

/** Field types that several routes share. */
export const externalId = z
  .string()
  .regex(EXTERNAL_ID_PATTERN, 'must have 1 to 128 characters of A-Z a-z 0-9 . _ : @ -');

/** The campaign in a path: its id or its product id. */
export const campaignId = externalId.describe('campaign id or product id');

/**
 * The reservation in a request. Each text is accepted: one that is no UUID gets 404, as an unknown one does. The
 * document says UUID, so that generated code has one type for it in requests and responses.
 */
export const reservationId = z.string().min(1).max(64, 'is not a valid reservation id').meta({ format: 'uuid' });

/** Text that Postgres can store. */
export const storable = z
  .string()
  .refine((text) => !text.includes('\0') && text.isWellFormed(), 'must not contain NUL or unpaired surrogates');

/** Free text for a record: bounded, and without characters that Postgres rejects or changes. */
export const note = z
  .string()
  .max(256, 'must have at most 256 characters')
  // A JSON Schema cannot express the flags of a regular expression.
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern rejects control characters
  .regex(/^[^\x00-\x1f\x7f-\x9f]*$/, 'must not contain control characters')
  .refine((text) => text.isWellFormed(), 'must not contain unpaired surrogates');

const YEAR_10000_MS = 253_402_300_800_000;
export const isoTime = z.iso
  .datetime({ offset: true, message: 'must be an RFC 3339 time' })
  .refine(
    (text) => !(Date.parse(text) <= 0 || Date.parse(text) >= YEAR_10000_MS),
    'must be between the years 1970 and 9999',
  );

/** An amount in minor units of its currency. */
export const amount = z.int('must be a whole number of minor units').max(MAX_AMOUNT, `must be at most ${MAX_AMOUNT}`);

export const currency = z
  .string()
  .refine(isCurrency, 'must be a currency of ISO 4217, in upper case')
  .describe('ISO 4217');

/** The cart of a user. `items` are accepted and ignored: discounts apply to the subtotal. */
export const cart = z.object({
  subtotal: amount.min(0, 'must not be below 0').describe('minor units'),
  currency,
  items: z.array(z.unknown()).optional(),
});

/** Counts the members of an object before they are checked, which costs more than a checkout if there are thousands. */
const withMembers = <Schema extends z.ZodType>(most: number, schema: Schema) =>
  z.preprocess((given, context) => {
    if (typeof given !== 'object' || given === null || Object.keys(given).length <= most) return given;
    context.addIssue({ code: 'custom', message: `must have at most ${most} members` });
    return z.NEVER;
  }, schema);

const MAX_ATTRIBUTES = 100;

/** Attributes of a user, which audience rules read. Nested values are accepted and ignored. */
export const attributes = withMembers(
  MAX_ATTRIBUTES,
  z.record(z.string().max(AUDIENCE_LIMITS.nameCharacters), z.unknown()),
).describe('strings, numbers, booleans, or lists of them');

const METADATA = { entries: 20, valueCharacters: 500, bytes: 2_048 };
/** What a shop attaches to a claim. Postgres stores no control characters and no unpaired surrogates. */
export const metadata = withMembers(
  METADATA.entries,
  z
    .record(
      z.string().regex(/^[A-Za-z0-9_.-]{1,40}$/, 'must have names of 1 to 40 characters of A-Z a-z 0-9 _ . -'),
      z
        .string()
        .max(METADATA.valueCharacters, `must have at most ${METADATA.valueCharacters} characters`)
        // A JSON Schema cannot express the flags of a regular expression.
        // biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern rejects control characters
        .regex(/^[^\x00-\x1f\x7f-\x9f]*$/, 'must not contain control characters')
        .refine((text) => text.isWellFormed(), 'must not contain unpaired surrogates'),
    )
    .refine(
      (entries) => Buffer.byteLength(JSON.stringify(entries)) <= METADATA.bytes,
      `must have at most ${METADATA.bytes} bytes as JSON`,
    ),
).describe(
  `at most ${METADATA.entries} texts of at most ${METADATA.valueCharacters} characters, together ${METADATA.bytes} bytes; returned with ` +
    'the reservation and in its events. Not a part of the idempotency key: a replay keeps that of the first request',
);

/** The text of the metadata for the journal; null = none. */
export const metadataText = (of: Readonly<Record<string, string>> | undefined): string | null =>
  of === undefined || Object.keys(of).length === 0 ? null : JSON.stringify(of);

/** Request headers that several routes read. */
export const requestHeaders = {
  'idempotency-key': z.string().optional().describe('8 to 255 characters of A-Z a-z 0-9 . _ ~ : -, bare or quoted'),
  'x-device-fingerprint': z.string().optional().describe('used if the request has no `device_fp`'),
  'if-none-match': z.string().optional().describe('the `ETag` of an earlier response; 304 if nothing has changed'),
};

/** The solution of a challenge from `challenge_required`. */
export const challengeSolution = z
  .string()
  .max(8_192, 'must have at most 8192 characters')
  .describe(
    'the solved `challenge` of a 403 `challenge_required`: base64 of {challenge, solution}, as ALTCHA makes it; for ' +
      'the kind `human` the text `human.` and the response of the provider (docs/challenges.md)',
  );
