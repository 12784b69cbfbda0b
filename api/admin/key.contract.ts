import { z } from 'zod';
import { ROLES } from '../../shared/domain/role.js';
import { isoTime } from '../http/fields.js';

const name = z
  .string()
  .regex(/^[A-Za-z0-9_.-]{1,64}$/, 'must have 1 to 64 characters of A-Z a-z 0-9 _ . -')
  .describe('appears in the log and the audit log; never used again');

export const keyBody = z
  .strictObject({
    name,
    kind: z
      .enum(['service', 'admin'])
      .describe('`service`: for payment and cart services; `admin`: for the calls of operators that its role allows'),
    role: z.enum(ROLES).nullable().default(null).describe('of kind `admin`: what the key may do (docs/team.md)'),
    expires_at: isoTime.nullable().default(null).describe('null = until it is revoked'),
  })
  .refine(({ kind, role }) => (kind === 'admin') === (role !== null), {
    path: ['role'],
    message: 'must be given for kind `admin`, and not for kind `service`',
  });
export type KeyBody = z.infer<typeof keyBody>;

export const keyQuery = z.object({
  all: z.enum(['true', 'false']).default('false').describe('true: also revoked and expired ones'),
});

export const keyData = z
  .object({
    id: z.uuid(),
    name: z.string(),
    kind: z.enum(['service', 'admin']),
    role: z.enum(ROLES).nullable().describe('null = of kind `service`'),
    secret: z.string().optional().describe('only in the response to the creation'),
    created_at: z.iso.datetime(),
    created_by: z.string(),
    expires_at: z.iso.datetime().nullable(),
    revoked_at: z.iso.datetime().nullable(),
    revoked_by: z.string().nullable(),
    last_used_at: z.iso.datetime().nullable().describe('accurate to about a minute; null = never used'),
  })
  .meta({ id: 'ApiKey' });
