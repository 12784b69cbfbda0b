import type { PolicyCache } from '../limits/policy-cache.js';

export type TokenSurgeLimits = {
  /** Tokens per network and minute without a proof of work, while a campaign enforces its rules. */
  freePerMinute: number;
  /** Tokens per network and minute without a proof of work, while no campaign enforces its rules. */
  freeInPeacePerMinute: number;
};

/**
 * Decides whether tokens of level 0 currently need a proof of work: if a network requests very many, and earlier while
 * a campaign with enforced rules is live. This applies before the quota of tokens rejects the network.
 */
export class TokenSurge {
  constructor(
    readonly policies: Pick<PolicyCache, 'enforcing'>,
    readonly limits: TokenSurgeLimits,
  ) {}

  /** Whether a token needs a proof of work. @param tokens number of tokens that the network requested in this minute */
  isOn(tokens: number): boolean {
    const { freePerMinute, freeInPeacePerMinute } = this.limits;
    return tokens > (this.policies.enforcing.length === 0 ? freeInPeacePerMinute : freePerMinute);
  }
}
