import type { PolicyBook } from './policy-book.js';
import type { Velocity } from './velocity.js';

export type TokenStormLimits = {
  /** Of one network in a minute; then each costs work. */
  freePerMinute: number;
  /** Attempts on one campaign in a second, in this process. */
  attemptsPerSecond: number;
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
    const { freePerMinute, attemptsPerSecond } = this.limits;
    return tokens > freePerMinute || enforcing.some((product) => this.velocity.perSecond(product) >= attemptsPerSecond);
  }
}
