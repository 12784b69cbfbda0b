import { z } from 'zod';
import { EVENT_TYPES } from '../../shared/contracts/events.js';
import { isoTime } from '../http/fields.js';
import { isWebhookSecret } from './webhook-secrets.js';

const MAX_SECRETS = 4;

const secrets = z
  .array(z.string().refine(isWebhookSecret, 'must be whsec_ and 24 to 64 bytes in base64'))
  .min(1)
  .max(MAX_SECRETS)
  .describe('all of them sign; while a secret is changed, the new one and the old one');
const types = z.array(z.enum(EVENT_TYPES)).min(1).nullable().describe('null = all');
const url = z.string().max(2_048).describe('https:// or http://, not a private address');

export const webhookBody = z.strictObject({
  url,
  types: types.default(null),
  secrets: secrets.optional().describe('made when left out, and shown in this answer only'),
});
export type WebhookBody = z.infer<typeof webhookBody>;

export const webhookChangeBody = z
  .strictObject({ url, types, secrets, enabled: z.boolean().describe('true tries again at once, where it stopped') })
  .partial();
export type WebhookChangeBody = z.infer<typeof webhookChangeBody>;

export const replayBody = z
  .strictObject({
    event_id: z.uuid().optional(),
    from: isoTime.optional(),
    to: isoTime.describe('not included').optional(),
  })
  .refine(
    ({ event_id, from, to }) => (event_id === undefined ? from !== undefined && to !== undefined : !from && !to),
    'must have either event_id, or from and to',
  )
  .refine(({ from, to }) => !from || !to || Date.parse(from) < Date.parse(to), {
    path: ['to'],
    message: 'must be later than from',
  })
  .transform(({ event_id, from, to }) =>
    event_id === undefined ? { from: String(from), to: String(to) } : { event_id },
  );
export type ReplayBody = z.infer<typeof replayBody>;

export const webhookData = z.object({
  id: z.uuid(),
  url: z.string(),
  types,
  secrets: z.array(z.string()).optional().describe('only where it was created'),
  secret_count: z.int(),
  enabled: z.boolean(),
  disabled_reason: z.string().nullable(),
  created_at: z.iso.datetime(),
  deliveries: z.object({
    backlog: z.int().describe('events it has not heard yet'),
    replays: z.int().describe('stretches that wait to be told again'),
    last_delivered_at: z.iso.datetime().nullable(),
    failed_attempts: z.int().describe('of the event it is at'),
    failing_since: z.iso.datetime().nullable(),
    next_attempt_at: z.iso.datetime().nullable(),
    last_error: z.string().nullable(),
  }),
});

export const replayData = z.object({ events: z.int().describe('that will be told again') });
