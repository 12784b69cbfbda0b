import { z } from 'zod';
import { LIMIT_FIELDS, type LimitName } from '../../shared/domain/campaign-policy.js';
import { isStorable } from './rules.contract.js';

const hour = (least: number, most: number) => z.int('must be a whole hour').min(least).max(most);

const MEANING: Record<LimitName, { takes: z.ZodType; meaning: string }> = {
  validate_per_minute_per_user: { takes: z.int(), meaning: 'checks of codes by one user in a minute' },
  redeem_per_minute_per_user: { takes: z.int(), meaning: 'redemptions tried by one user in a minute' },
  redeem_per_minute_per_address: {
    takes: z.int(),
    meaning: 'redemptions tried from one address in a minute before each needs a solved challenge',
  },
  checkout_per_minute_per_address: {
    takes: z.int(),
    meaning: 'checkouts tried from one address in a minute before each needs a solved challenge',
  },
  attestation_level: {
    takes: z.int(),
    meaning:
      'whatever `risk` says, taking part needs 1 = a solved challenge, 2 = a token that Apple or Google vouch for ' +
      '(docs/attestation.md; only where one of them is set up)',
  },
  accounts_per_device: {
    takes: z.int().nullable(),
    meaning: 'so many users on one device in a day block it; null = any',
  },
  accounts_per_address: {
    takes: z.int().nullable(),
    meaning: 'beyond so many users of one address in a day each needs a solved challenge; null = any',
  },
  account_min_age_hours: {
    takes: z.int().nullable(),
    meaning: 'younger accounts (attribute `account_created_at`) need a solved challenge; null = any',
  },
  unusual_hours: {
    takes: z.strictObject({ from: hour(0, 23), to: hour(0, 24) }).nullable(),
    meaning: 'hours of the campaign’s zone in which a solved challenge is needed, `to` not included; null = none',
  },
  velocity_factor: { takes: z.int(), meaning: 'times the usual promises in a minute that are an attack' },
  velocity_floor_per_minute: {
    takes: z.int(),
    meaning:
      'units and places promised in a minute that are never an attack; default: 20 for each unit, at least 20,000',
  },
};

/** Overrides of the abuse limits. */
export const limits = z
  .strictObject(
    Object.fromEntries(
      Object.entries(LIMIT_FIELDS).map(([name, { read }]) => {
        const { takes, meaning } = MEANING[name as LimitName];
        const field = takes.refine((value) => read(value) !== undefined, 'is out of range').optional();
        return [name, field.describe(meaning)];
      }),
    ),
  )
  .refine(
    (value) => isStorable(value),
    'must have no numbers beyond those of JSON, no halves of characters, no NUL, and no more than 4 levels',
  )
  .describe('instead of the defaults; docs/threats.md');
