import type { Attributes } from '../../shared/domain/audience.js';
import type { Cart } from '../../shared/domain/discount.js';
import type { UserId } from '../../shared/domain/ids.js';
import type { Log } from '../../shared/observability/log.js';
import type { Metrics } from '../../shared/observability/metrics.js';
import type { AttemptRecorder } from '../../shared/postgres/attempt-recorder.js';
import type { RedisClock } from '../../shared/redis/redis-clock.js';
import type { Admission } from '../guards/admission.js';
import type { Attestation } from '../guards/attestation.js';
import type { Challenges } from '../guards/challenges.js';
import type { Door } from '../guards/door.js';
import type { Entry } from '../guards/entry.js';
import type { Failures } from '../guards/failures.js';
import type { LocalQuota } from '../guards/local-quota.js';
import type { PolicyBook } from '../guards/policy-book.js';
import type { CampaignQuota, Quota } from '../guards/quotas.js';
import type { Identity, ShopperIdentity } from '../guards/shopper-identity.js';
import type { Velocity } from '../guards/velocity.js';
import type { CodeFinder } from './code-finder.js';
import type { OneTimeTokens } from './one-time-token.js';
import type { Redemption } from './redemption.js';
import type { Shopper, Validation } from './validation.js';

/** What the routes of coupons are made of. */
export type CouponParts = {
  admission: Admission;
  finder: CodeFinder;
  /** Failed requests by caller (`callerOf`), in this process. */
  guesses: LocalQuota;
  /** Codes that were never issued, or of which nothing is told, by network, in this process. */
  unknownCodes: LocalQuota;
  challenges: Challenges;
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
