import type { PolicyCache } from '../limits/policy-cache.js';
import type { AttemptRate } from './attempt-rate.js';

export type TokenSurgeLimits = {
  /** Tokens per network and minute without a proof of work, while a campaign enforces its rules. */
  freePerMinute: number;
  /** Tokens per network and minute without a proof of work, while no campaign enforces its rules. */
  freeInPeacePerMinute: number;
  /** Attempts per minute that count as normal, in a campaign that does not say otherwise. */
  surgeAttemptsPerMinute: number;
};

/**
 * Decides whether tokens of level 0 currently need a proof of work: if a network requests very many, and earlier while
 * a campaign with enforced rules is live. This applies before the quota of tokens rejects the network.
 */
export class TokenSurge {
  constructor(
    readonly policies: PolicyCache,
    readonly attempts: AttemptRate,
    readonly limits: TokenSurgeLimits,
  ) {}

  /** Whether a token needs a proof of work. @param tokens number of tokens that the network requested in this minute */
  isOn(tokens: number): boolean {
    const { enforcing } = this.policies;
    if (tokens > this.limits.freeInPeacePerMinute) return true;
    if (enforcing.length === 0) return false;
    return tokens > this.limits.freePerMinute || enforcing.some((product) => this.#isSurging(product));
  }

  #isSurging(product: string): boolean {
    const { surgeAttemptsPerMinute = this.limits.surgeAttemptsPerMinute } = this.policies.of(product).limits;
    return this.attempts.perSecond(product) > surgeAttemptsPerMinute / 60;
  }
}
