import { z } from 'zod';
import { LIMIT_FIELDS, LIMIT_MEANINGS, type LimitName } from '../../shared/domain/campaign-policy.js';
import { isStorable } from './rules.contract.js';

const hour = (least: number, most: number) => z.int('must be a whole hour').min(least).max(most);
const hours = z.strictObject({ from: hour(0, 23), to: hour(0, 24) });

/** Abuse limits that a campaign overrides. */
export const limits = z
  .strictObject(
    Object.fromEntries(
      Object.entries(LIMIT_FIELDS).map(([name, { read }]) => {
        const kind: z.ZodType = name === 'unusual_hours' ? hours : z.int();
        const takes = read(null) === null ? kind.nullable() : kind;
        const field = takes.refine((value) => read(value) !== undefined, 'is out of range').optional();
        return [name, field.describe(LIMIT_MEANINGS[name as LimitName])];
      }),
    ),
  )
  .refine(
    (value) => isStorable(value),
    'must not contain numbers outside of JSON, unpaired surrogates, NUL, or more than 4 levels',
  )
  .describe('overrides of the default limits; docs/threats.md');
