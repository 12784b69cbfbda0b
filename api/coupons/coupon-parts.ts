import type { Cart } from '../../shared/domain/discount.js';
import type { UserId } from '../../shared/domain/ids.js';
import type { ErrorCode } from '../../shared/errors/catalogue.js';
import type { Log } from '../../shared/observability/log.js';
import type { Metrics } from '../../shared/observability/metrics.js';
import type { AttemptRecorder } from '../../shared/postgres/attempt-recorder.js';
import type { RedisClock } from '../../shared/redis/redis-clock.js';
import type { Admission } from '../guards/admission.js';
import type { Attestation } from '../guards/attestation.js';
import type { Door } from '../guards/door.js';
import type { Entry } from '../guards/entry.js';
import type { Failures } from '../guards/failures.js';
import type { LocalQuota } from '../guards/local-quota.js';
import type { PolicyBook } from '../guards/policy-book.js';
import type { CampaignQuota, Quota } from '../guards/quotas.js';
import type { Attributes, Identity, ShopperIdentity } from '../guards/shopper-identity.js';
import type { Velocity } from '../guards/velocity.js';
import type { RouteContract } from '../http/route.js';
import type { CodeFinder } from './code-finder.js';
import type { OneTimeTokens } from './one-time-token.js';
import type { Redemption } from './redemption.js';
import type { Shopper, Validation } from './validation.js';

/** What the routes of coupons are made of. */
export type CouponParts = {
  admission: Admission;
  finder: CodeFinder;
  /** Made-up codes by user, in this process. */
  guesses: LocalQuota;
  redemption: Redemption;
  validation: Validation;
  oneTimeTokens: OneTimeTokens;
  attestation: Attestation;
  door: Door;
  entry: Entry;
  policies: PolicyBook;
  velocity: Velocity;
  failures: Failures;
  validateQuota: CampaignQuota;
  redeemQuota: CampaignQuota;
  shopper: ShopperIdentity;
  attempts: AttemptRecorder;
  clock: RedisClock;
  tokenQuota: Quota;
  metrics: Metrics;
  log: Log;
  limits: { oneTimeTokenMs: number; uniformRefusalMs: number; deviceQuota: number; deviceWindowMs: number };
};

export const COUPON_REFUSALS: readonly ErrorCode[] = [
  'invalid_request',
  'invalid_json',
  'unsupported_media_type',
  'body_too_large',
  'unauthorized',
  'forbidden',
  'blocked',
  'code_not_found',
  'code_not_usable',
  'audience_mismatch',
  'already_redeemed',
  'campaign_not_started',
  'campaign_ended',
  'campaign_paused',
  'sold_out',
  'waiting_room_full',
  'rate_limited',
  'temporarily_unavailable',
];

/** What the contracts of these routes have in common. */
export const couponContract = (
  path: string,
  rest: Pick<RouteContract, 'summary' | 'answers'> & Partial<RouteContract>,
) =>
  ({
    method: 'post',
    path: `/coupons${path}`,
    tag: 'coupons',
    caller: 'shopper',
    errors: COUPON_REFUSALS,
    ...rest,
  }) as const;

/** The shopper that a body names, with the attributes that are believed. */
export function shopperOf(
  body: {
    user_id: string;
    attributes: Attributes;
    cart?: { subtotal: number; currency: string } | undefined;
  },
  identity: Identity,
): Shopper {
  return {
    user: body.user_id as UserId,
    attributes: identity.attributes ?? body.attributes,
    cart: (body.cart as Cart | undefined) ?? null,
  };
}
