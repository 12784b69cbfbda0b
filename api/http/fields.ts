import { z } from 'zod';
import { AUDIENCE_LIMITS } from '../../shared/domain/audience.js';
import { EXTERNAL_ID_PATTERN } from '../../shared/domain/ids.js';
import { isCurrency, MAX_AMOUNT } from '../../shared/domain/money.js';

/** Field types that more than one route takes. */
export const externalId = z
  .string()
  .regex(EXTERNAL_ID_PATTERN, 'must have 1 to 128 characters of A-Z a-z 0-9 . _ : @ -');

/** A campaign in a path: its id or its product id. */
export const campaignId = externalId.describe('campaign id or product id');

/** Free text that goes into a record: bounded, and nothing that a table does not take or would change. */
export const note = z
  .string()
  .max(256, 'must have at most 256 characters')
  // Without flags, which a JSON Schema cannot have.
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what it is about
  .regex(/^[^\x00-\x1f\x7f-\x9f]*$/, 'must not have control characters')
  .refine((text) => text.isWellFormed(), 'must not have halves of characters');

const YEAR_10000_MS = 253_402_300_800_000;
export const isoTime = z.iso
  .datetime({ offset: true, message: 'must be an RFC 3339 time' })
  .refine((text) => !(Date.parse(text) <= 0 || Date.parse(text) >= YEAR_10000_MS), 'must lie between 1970 and 9999');

/** Minor units of some currency. */
export const amount = z.int('must be whole minor units').max(MAX_AMOUNT, `must be at most ${MAX_AMOUNT}`);

export const currency = z
  .string()
  .refine(isCurrency, 'must be a currency of ISO 4217, in upper case')
  .describe('ISO 4217');

/** What somebody buys. `items` are taken and not looked at: discounts are on the subtotal. */
export const cart = z.object({
  subtotal: amount.min(0, 'must not be below 0').describe('minor units'),
  currency,
  items: z.array(z.unknown()).optional(),
});

const MAX_ATTRIBUTES = 100;

/** What a caller says of a user, for audiences. What is nested in them is never looked at, however deep it goes. */
export const attributes = z
  .record(z.string().max(AUDIENCE_LIMITS.nameCharacters), z.unknown())
  .refine((given) => Object.keys(given).length <= MAX_ATTRIBUTES, `must have at most ${MAX_ATTRIBUTES} members`)
  .describe('texts, numbers, truth values, or lists of them');

/** An answer to `challenge_required`. */
export const challengeSolution = z
  .string()
  .max(4_096, 'must have at most 4096 characters')
  .describe(
    'the solved `challenge` of a 403 `challenge_required`: base64 of {challenge, solution}, as ALTCHA makes it',
  );
