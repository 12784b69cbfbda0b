import { z } from 'zod';
import { isMoment, isTimeZone } from '../../shared/calendar/sale-window.js';
import { readAudience } from '../../shared/domain/audience.js';
import { basisPointsOf } from '../../shared/domain/money.js';
import { amount, currency, note } from '../http/fields.js';

/** Contracts of discount, stacking, audience and times of a campaign, which docs/rules.md describes. */

export const discount = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('percent'),
    percent: z
      .number()
      .gt(0, { error: 'must be above 0', abort: true })
      .max(100, { error: 'must be at most 100', abort: true })
      .refine((percent) => basisPointsOf(percent) !== null, 'must have at most two decimals'),
  }),
  z.strictObject({
    kind: z.literal('amount'),
    amount: amount.min(1, 'must be 1 or more').describe('minor units'),
    currency,
  }),
  z.strictObject({ kind: z.literal('free_shipping') }),
]);

export const stacking = z.strictObject({
  exclusive: z.boolean().describe('cannot be combined with other codes'),
  group: note.min(1, 'must not be empty').optional().describe('codes of one group cannot be combined'),
  priority: z.int().min(0).max(1_000).optional().describe('lower is applied first; default: 100'),
});

export const audience = z
  .record(z.string(), z.unknown())
  .superRefine((rule, context) => {
    for (const { path, detail } of readAudience(rule).problems ?? [])
      context.addIssue({ code: 'custom', path, message: detail });
  })
  .describe('a rule over `attributes`, as described in docs/rules.md');

export const timeZone = z.string().refine(isTimeZone, 'must be an IANA time zone');

export const saleTime = z
  .string()
  .refine(isMoment, 'must be an RFC 3339 time, a local time without an offset, or a day, from 1970-01-01 to 9998-12-31')
  .describe('RFC 3339; without an offset, or as a day alone, it is in `time_zone`');

const MAX_DEPTH = 4;

/** Whether Postgres stores a value unchanged, which free-form terms require. */
export function isStorable(value: unknown, depth = 0): boolean {
  if (typeof value === 'number') return Number.isFinite(value);
  if (typeof value === 'string') return /^[^\0\p{Cs}]*$/u.test(value);
  if (typeof value !== 'object' || value === null) return true;
  if (depth >= MAX_DEPTH) return false;
  return Object.entries(value).every(([name, part]) => isStorable(name) && isStorable(part, depth + 1));
}
