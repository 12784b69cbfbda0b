import { z } from 'zod';
import { LIMITS } from '../../shared/config/limits.js';
import { MAX_PREFIX_CHARACTERS, normaliseCode } from '../../shared/domain/codes.js';
import { CODE_JOB_STATUSES } from '../../shared/postgres/code-jobs.js';

/** A code as a person types it; the canonical form is made where it is stored. */
export const typedCode = z
  .string()
  .refine(
    (text) => normaliseCode(text).kind === 'code',
    'must have 1 to 64 letters A-Z and digits, beside spaces and hyphens',
  );

export const generateBody = z.strictObject({
  count: z.int('must be a whole number').min(1).max(LIMITS.codesPerCampaign),
  prefix: z
    .string()
    .transform((text) => normaliseCode(text))
    .refine(
      (prefix) => prefix.kind === 'empty' || (prefix.kind === 'code' && prefix.code.length <= MAX_PREFIX_CHARACTERS),
      `must have at most ${MAX_PREFIX_CHARACTERS} letters A-Z and digits, beside spaces and hyphens`,
    )
    .transform((prefix) => (prefix.kind === 'code' ? (prefix.code as string) : ''))
    .optional(),
});
export type GenerateBody = z.infer<typeof generateBody>;
/** The same as it is sent, for the OpenAPI document. */
export const generateBodySent = z.strictObject({
  count: generateBody.shape.count,
  prefix: z.string().optional().describe(`at most ${MAX_PREFIX_CHARACTERS} letters A-Z and digits`),
});

export const codeJobData = z.object({
  id: z.uuid(),
  campaign_id: z.uuid(),
  kind: z.enum(['generate', 'import']),
  status: z.enum(CODE_JOB_STATUSES),
  total: z.int().describe('codes to make, or lines that can be codes'),
  processed: z.int(),
  progress: z.number().min(0).max(1),
  added: z.int(),
  duplicates: z.int().describe('lines whose code was issued before, by whatever campaign'),
  bad_lines: z.int().describe('lines that are no code, or have no room'),
  errors: z
    .array(z.object({ line: z.int(), detail: z.string() }))
    .describe('the first lines that were not taken; line 1 is the first of the file'),
  errors_omitted: z.int().describe('lines that were not taken either and are not named'),
  failure: z.string().nullable(),
  created_at: z.iso.datetime(),
  updated_at: z.iso.datetime(),
  finished_at: z.iso.datetime().nullable(),
});
