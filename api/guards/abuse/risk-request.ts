import type { CampaignLimits, CampaignPolicy } from '../../../shared/domain/campaign-policy.js';
import type { DeviceId, IdempotencyKey, ProductId } from '../../../shared/domain/ids.js';
import type { ChallengeFor } from '../attestation/challenges.js';
import type { CampaignLimit } from '../limits/quotas.js';
import type { Solved } from './person-check.js';
import type { AddressRule, RiskSubject } from './risk.js';

/** A claim that the rules judge. A retry of the same request has the same `use`. */
export type RiskGateRequest = RiskSubject &
  Solved & {
    policy: CampaignPolicy;
    /** The campaign, also if its policy stands for all with uniform refusals; then "" = a code that is not known. */
    product: ProductId;
    /** Device, named or derived, that a challenge is bound to; null = none, so the challenge is bound to the user. */
    boundTo: DeviceId | null;
    key: IdempotencyKey;
  };

/**
 * Limit of calls from one network per minute. Each call above it needs a solved challenge. It never leads to a ban,
 * because other users share the address.
 */
export type AddressLimit = {
  rule: AddressRule;
  /** Its `limit` is the default. */
  quota: CampaignLimit;
  /** Returns the limit that a campaign sets; undefined = the default applies. */
  limitOf: (limits: CampaignLimits) => number | undefined;
  /** Reason of the challenge, for the caller. */
  why: string;
};

/** What a challenge for a request is good for. */
export function purposeOf({ policy, boundTo, user, network }: RiskGateRequest): ChallengeFor {
  return { product: policy.product, subject: boundTo ?? `user.${user}`, network };
}
