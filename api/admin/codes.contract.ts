import { z } from 'zod';
import { LIMITS } from '../../shared/config/limits.js';
import { MAX_PREFIX_CHARACTERS, normaliseCode } from '../../shared/domain/codes.js';
import { CODE_JOB_STATUSES } from '../../shared/postgres/code-jobs.js';

/** A code as a user types it. It is converted to its canonical form when it is stored. */
export const typedCode = z
  .string()
  .refine(
    (text) => normaliseCode(text).kind === 'code',
    'must have 1 to 64 letters A-Z and digits, not counting spaces and hyphens',
  );

export const generateBody = z.strictObject({
  count: z.int('must be a whole number').min(1).max(LIMITS.codes.perCampaign),
  prefix: z
    .string()
    .transform((text) => normaliseCode(text))
    .refine(
      (prefix) => prefix.kind === 'empty' || (prefix.kind === 'code' && prefix.code.length <= MAX_PREFIX_CHARACTERS),
      `must have at most ${MAX_PREFIX_CHARACTERS} letters A-Z and digits, not counting spaces and hyphens`,
    )
    .transform((prefix) => (prefix.kind === 'code' ? (prefix.code as string) : ''))
    .optional(),
});
export type GenerateBody = z.infer<typeof generateBody>;
/** The body as clients send it, for the OpenAPI document. */
export const generateBodySent = z.strictObject({
  count: generateBody.shape.count,
  prefix: z.string().optional().describe(`at most ${MAX_PREFIX_CHARACTERS} letters A-Z and digits`),
});

export const codeJobData = z
  .object({
    id: z.uuid(),
    campaign_id: z.uuid(),
    kind: z.enum(['generate', 'import']),
    status: z.enum(CODE_JOB_STATUSES),
    total: z.int().describe('codes to generate, or lines with a valid code'),
    processed: z.int(),
    progress: z.number().min(0).max(1),
    added: z.int(),
    duplicates: z.int().describe('lines whose code was already issued by any campaign'),
    bad_lines: z.int().describe('lines without a valid code, or beyond the limit of codes'),
    errors: z
      .array(z.object({ line: z.int(), detail: z.string() }))
      .describe('the first rejected lines; line 1 is the first of the file'),
    errors_omitted: z.int().describe('number of further rejected lines'),
    failure: z.string().nullable(),
    created_at: z.iso.datetime(),
    updated_at: z.iso.datetime(),
    finished_at: z.iso.datetime().nullable(),
  })
  .meta({ id: 'CodeJob' });
