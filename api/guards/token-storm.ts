import type { PolicyBook } from './policy-book.js';
import type { Velocity } from './velocity.js';

export type TokenStormLimits = {
  /** Of one network in a minute; then each costs work. */
  freePerMinute: number;
  /** Attempts on a campaign in a minute that are no attack, where it does not say so itself. */
  velocityFloorPerMinute: number;
};

/**
 * Whether tokens that cost nothing otherwise cost work now. Only while a campaign is live that enforces its rules: elsewhere we cannot
 * know whether many tokens for one network are an attack or an office.
 */
export class TokenStorm {
  constructor(
    readonly policies: PolicyBook,
    readonly velocity: Velocity,
    readonly limits: TokenStormLimits,
  ) {}

  /** @param tokens how many the network has asked for in this minute */
  isOn(tokens: number): boolean {
    const { enforcing } = this.policies;
    if (enforcing.length === 0) return false;
    return tokens > this.limits.freePerMinute || enforcing.some((product) => this.#isStormed(product));
  }

  /** Sooner than the worker, who looks at a whole minute and then pauses the campaign: the work may spare it that. */
  #isStormed(product: string): boolean {
    const { velocityFloorPerMinute = this.limits.velocityFloorPerMinute } = this.policies.of(product).limits;
    return this.velocity.perSecond(product) > velocityFloorPerMinute / 60;
  }
}
