import { z } from 'zod';
import { BAN_EFFECTS, BAN_KINDS } from '../../shared/domain/ban.js';
import { EXTERNAL_ID_PATTERN } from '../../shared/domain/ids.js';
import { canonicalNetwork } from '../guards/caller/networks.js';
import { isoTime, note } from '../http/fields.js';

const subject = z
  .string()
  .regex(/^[A-Za-z0-9._:@/-]{1,128}$/, 'must have 1 to 128 characters of A-Z a-z 0-9 . _ : @ / -')
  .describe('a user_id, a device_fp, or an IPv4 or IPv6 address or range');

export const banBody = z
  .strictObject({
    effect: z.enum(BAN_EFFECTS).default('ban').describe('allow: exempts the subject from bans by rules'),
    kind: z.enum(BAN_KINDS),
    subject,
    until: isoTime.nullable().default(null).describe('null = until the ban is lifted'),
    reason: note.min(1, 'must not be empty'),
  })
  .transform((body, context) => {
    const known = body.kind === 'network' ? canonicalNetwork(body.subject) : body.subject;
    if (known !== null && (body.kind === 'network' || EXTERNAL_ID_PATTERN.test(known)))
      return { ...body, subject: known };
    const message =
      body.kind === 'network'
        ? 'must be an address, or a range of at least /8 (IPv4) or /16 (IPv6)'
        : 'must have 1 to 128 characters of A-Z a-z 0-9 . _ : @ -';
    context.addIssue({ code: 'custom', path: ['subject'], message });
    return z.NEVER;
  });
export type BanBody = z.infer<typeof banBody>;

export const banQuery = z.object({
  effect: z.enum(BAN_EFFECTS).optional(),
  kind: z.enum(BAN_KINDS).optional(),
  subject: subject.optional(),
  all: z.enum(['true', 'false']).default('false').describe('true: also expired and lifted ones'),
  limit: z.coerce.number().int().min(1).max(500).default(100),
  cursor: z.uuid().optional().describe('from the `Link` of the previous page'),
});

export const banData = z
  .object({
    id: z.uuid(),
    effect: z.enum(BAN_EFFECTS),
    kind: z.enum(BAN_KINDS),
    subject: z.string(),
    until: z.iso.datetime().nullable(),
    reason: z.string(),
    actor: z.string().describe('an operator, or `rule:` and the name of the rule'),
    created_at: z.iso.datetime(),
    lifted_at: z.iso.datetime().nullable(),
    lifted_by: z.string().nullable(),
  })
  .meta({ id: 'Ban' });
