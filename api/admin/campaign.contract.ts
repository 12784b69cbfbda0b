import { z } from 'zod';
import { CAMPAIGN_STATUSES, CAMPAIGN_TYPES, MAX_UNITS } from '../../shared/domain/campaign.js';
import { MOST_EXTEND_SECONDS, RISK_MODES } from '../../shared/domain/campaign-policy.js';
import { checkoutUrlProblem, MAX_CHECKOUT_URL, PLACEHOLDERS } from '../../shared/domain/checkout-url.js';
import { DEFAULT_OPENING_MINUTES, MAX_OPENING_MINUTES, VELOCITY_MODES } from '../../shared/domain/velocity.js';
import { externalId, note, storable } from '../http/fields.js';
import { nearestName } from '../http/unknown-fields.js';
import { branding } from './branding.contract.js';
import { typedCode } from './codes.contract.js';
import { limits } from './limits.contract.js';
import { audience, discount, saleTime, stacking, timeZone } from './rules.contract.js';

/** Users who step back would change the order among the buckets. */
export const NO_PRESENCE = 'is not possible in a campaign with several buckets';

/** A user who needs several units would hold up the line of all buckets. */
export const ONE_UNIT = 'must be 1 in a campaign with several buckets';

const MAX_LINE = 10_000_000;
const MAX_HOLD_SECONDS = 30 * 86_400;

const waitingRoom = z.strictObject({
  enabled: z.boolean(),
  max_size: z.int().min(1).max(MAX_LINE).default(1_000_000),
  presence_seconds: z.int().min(1).max(3_600).nullable().default(null),
  absent_hold_seconds: z
    .int()
    .min(1)
    .max(MAX_HOLD_SECONDS)
    .nullable()
    .optional()
    .describe(
      'hold of a user who is promoted without having been seen for `presence_seconds`. Without it, such users are not promoted and keep ' +
        'their number',
    ),
});

/** Why the hold for absent users does not fit the other terms; null = it does. */
export function absentHoldProblem(
  absentHoldSeconds: number | null | undefined,
  presenceSeconds: number | null,
  holdSeconds: number,
): string | null {
  if (!absentHoldSeconds) return null;
  if (presenceSeconds === null) return 'needs `presence_seconds`, which says who is absent';
  if (holdSeconds === 0) return 'needs `hold_seconds`: there is nothing to pay';
  return absentHoldSeconds < holdSeconds ? 'must be at least `hold_seconds`' : null;
}

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

const placeholders = Object.entries(PLACEHOLDERS).map(([name, meaning]) => `\`{${name}}\` (${meaning})`);
const checkoutUrl = storable
  .max(MAX_CHECKOUT_URL, `must have at most ${MAX_CHECKOUT_URL} characters`)
  .superRefine((template, context) => {
    const problem = checkoutUrlProblem(template, nearestName);
    if (problem) context.addIssue({ code: 'custom', message: problem });
  })
  .describe(`where shoppers pay: a URL with the placeholders ${placeholders.join(', ')}`);

/** Terms of coupons and of the guards. */
export const rules = {
  checkout_url: checkoutUrl.nullable(),
  extend_seconds: z
    .int()
    .min(0)
    .max(MOST_EXTEND_SECONDS)
    .describe('by how much a service may extend the deadline of a reservation, once; 0 = not at all'),
  branding: branding.nullable(),
  require_token: z.boolean(),
  risk: z
    .enum(RISK_MODES)
    .describe(
      'whether rules on accounts, ages and hours decide, or only count; `strict` also blocks addresses (docs/threats.md)',
    ),
  velocity: z
    .enum(VELOCITY_MODES)
    .describe(
      'what happens when far more users than usual get a promise within seconds: the campaign is paused, or operators are only alerted',
    ),
  opening_minutes: z
    .int()
    .min(0)
    .max(MAX_OPENING_MINUTES)
    .describe('minutes after the start and after a restock in which `velocity` only alerts'),
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
    .default(1)
    .describe(
      'parts of the stock, each in another shard of Redis, so at most SHARDS, and at most 16; fixed at the creation; ' +
        'not for `unique`, and for a `pool` only with a `total_limit`; its codes are then given by checkout only',
    ),
  regions: z
    .array(z.string())
    .min(2, 'must name at least two regions')
    .optional()
    .describe(
      'names of REGIONS that sell the product together, each with a campaign of its own and the same list; each user has one of them ' +
        '(docs/regions.md). Fixed at the creation; only for `shared` and with one bucket',
    ),
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
  velocity: rules.velocity
    .optional()
    .describe('default: `pause` for coupons with a `total_limit` and without a line, else `alert`'),
  opening_minutes: rules.opening_minutes.default(DEFAULT_OPENING_MINUTES),
  audience: rules.audience.default(null),
  stacking: rules.stacking.default({ exclusive: false }),
  checkout_url: rules.checkout_url.default(null),
  extend_seconds: rules.extend_seconds.optional().describe('default: `hold_seconds`, at most 1,800; 0 = not at all'),
  branding: rules.branding.default(null),
  uniform_refusals: rules.uniform_refusals.default(false),
  limits: rules.limits.default({}),
});
export const campaignBody = campaignFields
  .refine(({ type, code }) => code === null || type === 'shared', {
    path: ['code'],
    message: 'only a shared campaign has a code; see POST …/codes',
  })
  .refine(({ type, total_limit, buckets }) => buckets === 1 || type !== 'pool' || total_limit !== null, {
    path: ['total_limit'],
    message: 'must be a number in a pool with several buckets, for instance the number of codes',
  })
  .refine(({ max_qty, buckets }) => buckets === 1 || max_qty === 1, { path: ['max_qty'], message: ONE_UNIT })
  .refine(({ waiting_room, buckets }) => buckets === 1 || waiting_room.presence_seconds === null, {
    path: ['waiting_room', 'presence_seconds'],
    message: NO_PRESENCE,
  })
  .superRefine(({ waiting_room: room, hold_seconds }, context) => {
    const message = absentHoldProblem(room.absent_hold_seconds, room.presence_seconds, hold_seconds);
    if (message) context.addIssue({ code: 'custom', path: ['waiting_room', 'absent_hold_seconds'], message });
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
    buckets: fixed(''),
    regions: fixed(''),
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

export const campaignData = z
  .object({
    id: z.uuid(),
    product_id: z.string(),
    type: z.enum(CAMPAIGN_TYPES),
    code: z.string().nullable(),
    total_limit: z.int().nullable(),
    status: z.enum(CAMPAIGN_STATUSES),
    buckets: z.int().describe('parts of the stock, each in another shard of Redis'),
    regions: z.array(z.string()).optional().describe('the regions that sell it together; absent = this one alone'),
    ...terms,
    ...rules,
    waiting_room: waitingRoom.extend({ max_size: z.int(), presence_seconds: z.int().nullable() }),
    starts_at: z.iso.datetime(),
    starts_at_local: localTimeField,
    ends_at: z.iso.datetime().nullable(),
    ends_at_local: localTimeField.nullable(),
    hidden: z.boolean().describe('the list leaves it out unless it is asked for hidden campaigns'),
    version: z.int().describe('of the terms'),
    created_at: z.iso.datetime(),
    updated_at: z.iso.datetime(),
    warnings: z
      .array(z.string())
      .optional()
      .describe('what the terms do to honest users; where a campaign is created, changed, previewed or read alone'),
  })
  .meta({ id: 'Campaign' });
export type CampaignData = z.input<typeof campaignData>;

export const statsData = z
  .object({
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
  })
  .meta({ id: 'CampaignStats' });
