import { z } from 'zod';
import { CAMPAIGN_STATUSES, CAMPAIGN_TYPES, MAX_UNITS } from '../../shared/domain/campaign.js';
import { RISK_MODES } from '../../shared/domain/campaign-policy.js';
import { externalId, note } from '../http/fields.js';
import { typedCode } from './codes.contract.js';
import { limits } from './limits.contract.js';
import { audience, discount, saleTime, stacking, timeZone } from './rules.contract.js';

const MAX_LINE = 10_000_000;
const MAX_HOLD_SECONDS = 30 * 86_400;

const waitingRoom = z.strictObject({
  enabled: z.boolean(),
  max_size: z.int().min(1).max(MAX_LINE).default(1_000_000),
  presence_seconds: z.int().min(1).max(3_600).nullable().default(null),
});

/** Terms that may be changed while a campaign is open. Defaults apply on creation only. */
const terms = {
  name: note.min(1, 'must not be empty'),
  starts_at: saleTime,
  ends_at: saleTime.nullable(),
  time_zone: timeZone,
  discount: discount.nullable(),
  hold_seconds: z.int().min(0).max(MAX_HOLD_SECONDS),
  per_user_limit: z.int().min(1).max(1_000),
  max_qty: z.int().min(1).max(1_000_000),
  waiting_room: waitingRoom,
  confirmation: z.enum(['fast', 'durable']),
  late_payment: z.enum(['refuse', 'reacquire']),
  refund_policy: z.enum(['return', 'burn']),
  require_attestation: z.boolean(),
};

/** Terms of coupons and of the guards. */
export const rules = {
  require_token: z.boolean(),
  risk: z.enum(RISK_MODES).describe('whether rules on accounts, ages and hours decide, or only count'),
  audience: audience.nullable(),
  stacking,
  uniform_refusals: z.boolean(),
  limits,
};

const campaignFields = z.strictObject({
  product_id: externalId,
  type: z.enum(CAMPAIGN_TYPES).default('shared'),
  code: typedCode.nullable().default(null).describe('of a shared campaign'),
  total_limit: z
    .int('must be given: whole units, or null for unlimited')
    .min(0)
    .max(MAX_UNITS)
    .nullable()
    .describe('must be given; null = unlimited'),
  draft: z.boolean().default(false),
  buckets: z
    .int()
    .min(1)
    .max(64)
    .default(1)
    .describe('parts of the stock; 1 is in force on a single Redis, whatever is asked'),
  ...terms,
  name: terms.name.optional().describe('the product id when left out'),
  starts_at: terms.starts_at.optional().describe('now when left out'),
  ends_at: terms.ends_at.default(null).describe('null = open end; a day is included'),
  time_zone: terms.time_zone.default('UTC'),
  discount: terms.discount.default(null),
  hold_seconds: terms.hold_seconds.default(0).describe('0 = nothing to pay, redeemed at once'),
  per_user_limit: terms.per_user_limit.default(1).describe('redemptions, of any quantity'),
  max_qty: terms.max_qty.default(1),
  waiting_room: terms.waiting_room.default({ enabled: false, max_size: 1_000_000, presence_seconds: null }),
  confirmation: terms.confirmation.default('fast'),
  late_payment: terms.late_payment.default('refuse'),
  refund_policy: terms.refund_policy.default('return'),
  require_attestation: terms.require_attestation.default(true),
  require_token: rules.require_token.default(false),
  risk: rules.risk.default('observe'),
  audience: rules.audience.default(null),
  stacking: rules.stacking.default({ exclusive: false }),
  uniform_refusals: rules.uniform_refusals.default(false),
  limits: rules.limits.default({}),
});
export const campaignBody = campaignFields.refine(({ type, code }) => code === null || type === 'shared', {
  path: ['code'],
  message: 'only a shared campaign has a code; see POST …/codes',
});
export type CampaignBody = z.infer<typeof campaignBody>;

const fixed = (instead: string) =>
  z
    .unknown()
    .optional()
    .refine((value) => value === undefined, `cannot be changed${instead}`);

export const amendBody = z
  .strictObject({ ...terms, ...rules })
  .partial()
  .extend({
    draft: z.literal(false, 'can only be set to false').optional().describe('false publishes a draft'),
    product_id: fixed(''),
    type: fixed(''),
    code: fixed(''),
    total_limit: fixed('; use POST …/stock'),
    status: fixed('; use POST …/open, /pause, /resume or /close'),
  });
export type AmendBody = z.infer<typeof amendBody>;

export const stockBody = z.strictObject({
  delta: z
    .int('must be a whole number')
    .min(-MAX_UNITS)
    .max(MAX_UNITS)
    .refine((delta) => delta !== 0, 'must not be 0'),
});

const localTimeField = z.iso.datetime({ offset: true }).describe('on the clock of `time_zone`, with its offset then');

export const campaignData = z.object({
  id: z.uuid(),
  product_id: z.string(),
  type: z.enum(CAMPAIGN_TYPES),
  code: z.string().nullable(),
  total_limit: z.int().nullable(),
  status: z.enum(CAMPAIGN_STATUSES),
  buckets: z.literal(1),
  ...terms,
  ...rules,
  starts_at: z.iso.datetime(),
  starts_at_local: localTimeField,
  ends_at: z.iso.datetime().nullable(),
  ends_at_local: localTimeField.nullable(),
  version: z.int().describe('of the terms'),
  created_at: z.iso.datetime(),
  updated_at: z.iso.datetime(),
});
export type CampaignData = z.input<typeof campaignData>;

export const statsData = z.object({
  product_id: z.string(),
  status: z.enum(CAMPAIGN_STATUSES),
  total: z.int().nullable(),
  free: z.int().nullable(),
  held: z.int(),
  redeemed: z.int(),
  burned: z.int(),
  waiting: z.int(),
  journal_backlog: z.int().describe('entries of all campaigns that Postgres has not committed yet'),
  oldest_unpersisted_seconds: z.number(),
  persisted: z.int().describe('units held, redeemed or burned in Postgres'),
  drift: z.int().describe('units taken here minus units taken in Postgres; what is in flight counts too'),
  confirmed_per_second: z.number().describe('reservations made, over the last ten seconds'),
});
