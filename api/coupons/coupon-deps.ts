import type { Attributes } from '../../shared/domain/audience.js';
import type { Cart } from '../../shared/domain/discount.js';
import type { UserId } from '../../shared/domain/ids.js';
import type { Log } from '../../shared/observability/log.js';
import type { Metrics } from '../../shared/observability/metrics.js';
import type { RedisClock } from '../../shared/redis/redis-clock.js';
import type { BlocklistGuard } from '../guards/abuse/blocklist-guard.js';
import type { FailedAttemptLimiter } from '../guards/abuse/failed-attempt-limiter.js';
import type { RiskGate } from '../guards/abuse/risk-gate.js';
import type { Velocity } from '../guards/abuse/velocity.js';
import type { Attestation } from '../guards/attestation/attestation.js';
import type { Challenges } from '../guards/attestation/challenges.js';
import type { Identity, ShopperIdentity } from '../guards/auth/shopper-identity.js';
import type { LoadShedder } from '../guards/limits/load-shedding.js';
import type { LocalQuota } from '../guards/limits/local-quota.js';
import type { PolicyCache } from '../guards/limits/policy-cache.js';
import type { CampaignQuota, Quota } from '../guards/limits/quotas.js';
import type { AttemptRecorder } from './attempt-recorder.js';
import type { CodeResolver } from './code-resolver.js';
import type { OneTimeTokens } from './one-time-token.js';
import type { Redemption } from './redemption.js';
import type { Shopper, Validation } from './validation.js';

/** Dependencies of the coupon routes. */
export type CouponDeps = {
  admission: LoadShedder;
  finder: CodeResolver;
  /** Counts failed requests by caller (`callerOf`), in this process. */
  guesses: LocalQuota;
  /** Counts unknown codes, and codes with uniform refusals, by network, in this process. */
  unknownCodes: LocalQuota;
  challenges: Challenges;
  redemption: Redemption;
  validation: Validation;
  oneTimeTokens: OneTimeTokens;
  attestation: Attestation;
  door: BlocklistGuard;
  entry: RiskGate;
  policies: PolicyCache;
  velocity: Velocity;
  failures: FailedAttemptLimiter;
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

/** Returns the shopper of a request, with the attributes of the proof of identity or else those of the body. */
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
