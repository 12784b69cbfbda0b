import type { PolicyCache } from '../limits/policy-cache.js';
import type { Velocity } from './velocity.js';

export type TokenSurgeLimits = {
  /** Of one network in a minute while a campaign enforces its rules; then each costs work. */
  freePerMinute: number;
  /** The same while none does. */
  freeInPeacePerMinute: number;
  /** Attempts on a campaign in a minute that are no attack, where it does not say so itself. */
  velocityFloorPerMinute: number;
};

/**
 * Whether tokens that cost nothing otherwise cost work now: when a network asks for very many, and sooner while a campaign is live that
 * enforces its rules. Work comes before the network is refused by its quota of tokens.
 */
export class TokenSurge {
  constructor(
    readonly policies: PolicyCache,
    readonly velocity: Velocity,
    readonly limits: TokenSurgeLimits,
  ) {}

  /** @param tokens how many the network has asked for in this minute */
  isOn(tokens: number): boolean {
    const { enforcing } = this.policies;
    if (tokens > this.limits.freeInPeacePerMinute) return true;
    if (enforcing.length === 0) return false;
    return tokens > this.limits.freePerMinute || enforcing.some((product) => this.#isStormed(product));
  }

  /** Sooner than the worker, who looks at a whole minute and then pauses the campaign: the work may spare it that. */
  #isStormed(product: string): boolean {
    const { velocityFloorPerMinute = this.limits.velocityFloorPerMinute } = this.policies.of(product).limits;
    return this.velocity.perSecond(product) > velocityFloorPerMinute / 60;
  }
}
