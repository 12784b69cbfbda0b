import { z } from 'zod';
import { LIMIT_FIELDS, type LimitName } from '../../shared/domain/campaign-policy.js';
import { isStorable } from './rules.contract.js';

const hour = (least: number, most: number) => z.int('must be a whole hour').min(least).max(most);

const MEANING: Record<LimitName, { takes: z.ZodType; meaning: string }> = {
  validate_per_minute_per_user: {
    takes: z.int(),
    meaning: 'checks of codes by one user: as many at once, and as many in each minute after that',
  },
  redeem_per_minute_per_user: {
    takes: z.int(),
    meaning: 'attempted redemptions by one user: as many at once, and as many in each minute after that',
  },
  checkout_per_minute_per_user: {
    takes: z.int(),
    meaning:
      'attempted checkouts by one user: as many at once, and as many in each minute after that; default: no limit',
  },
  redeem_per_minute_per_address: {
    takes: z.int(),
    meaning:
      'attempted redemptions from one address in a minute; above it, each needs a solved challenge, and with ' +
      '`risk: strict` the address is blocked',
  },
  checkout_per_minute_per_address: {
    takes: z.int(),
    meaning:
      'attempted checkouts from one address in a minute; above it, each needs a solved challenge, and with ' +
      '`risk: strict` the address is blocked',
  },
  attestation_level: {
    takes: z.int(),
    meaning:
      'requirement of every claim, whatever `risk` is: 1 = a solved challenge, 2 = a device token that Apple or Google ' +
      'attest (docs/attestation.md; only if one of them is configured)',
  },
  identity_level: {
    takes: z.int(),
    meaning:
      'requirement of every claim, whatever `risk` is: to what level the shop must have verified the person ' +
      '(docs/identity.md; only if shoppers prove who they are)',
  },
  accounts_per_device: {
    takes: z.int().nullable(),
    meaning: 'number of users per day at which a device is blocked; null = unlimited',
  },
  accounts_per_address: {
    takes: z.int().nullable(),
    meaning: 'users of one address per day; above it, each needs a solved challenge; null = unlimited',
  },
  account_min_age_hours: {
    takes: z.int().nullable(),
    meaning: 'accounts younger than this (attribute `account_created_at`) need a solved challenge; null = no minimum',
  },
  unusual_hours: {
    takes: z.strictObject({ from: hour(0, 23), to: hour(0, 24) }).nullable(),
    meaning: 'hours in the campaign’s time zone in which a solved challenge is needed, `to` excluded; null = none',
  },
  surge_attempts_per_minute: {
    takes: z.int(),
    meaning:
      'attempts per minute in one process, of one network or many, above which claims need a proof of work if `risk` enforces; default: 20,000',
  },
};

/** Abuse limits that a campaign overrides. */
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
    'must not contain numbers outside of JSON, unpaired surrogates, NUL, or more than 4 levels',
  )
  .describe('overrides of the default limits; docs/threats.md');
