import { runEvery } from '../../../shared/observability/shared-interval.js';
import { wideNetwork } from '../caller/address.js';
import { LocalQuota } from '../limits/local-quota.js';

const PERIOD_MS = 1_000;

/** Share of the limit of a campaign that the attempts of one network count for, so that few networks are no storm. */
const SHARE_OF_ONE = 0.1;

export type AttemptRateLimits = {
  callersKept: number;
  /** Attempts per minute that count as normal, in a campaign that does not say otherwise. */
  surgeAttemptsPerMinute: number;
};

/** A campaign, and its own limit of attempts. `product` "" = all codes that could be invented. */
type Attempted = { product: string; limits: { surgeAttemptsPerMinute?: number } };

/**
 * Counts the attempts at each campaign in this process. They determine which claims need a proof of work, and its cost.
 * How many users get promises is counted by the script that makes them (lua/includes/velocity.lua).
 */
export class AttemptRate {
  #attempts = new Map<string, number>();
  #lastSecond = new Map<string, number>();
  #end = () => {};
  readonly #byNetwork: LocalQuota;

  constructor(readonly limits: AttemptRateLimits) {
    this.#byNetwork = new LocalQuota(Number.MAX_SAFE_INTEGER, PERIOD_MS, limits.callersKept);
  }

  start(): void {
    this.#end = runEvery(PERIOD_MS, () => this.nextSecond());
  }

  stop(): void {
    this.#end();
  }

  /** Counts an attempt, also one that fails. Only those with a genuine token may raise the cost for others. */
  add(attempted: Attempted, network: string): void {
    const { product } = attempted;
    const ofNetwork = this.#byNetwork.count(`${product}|${wideNetwork(network)}`);
    if (ofNetwork > Math.max(1, this.#limitOf(attempted) * SHARE_OF_ONE)) return;
    this.#attempts.set(product, (this.#attempts.get(product) ?? 0) + 1);
  }

  /**
   * Returns the number of attempts at a campaign in this process within about a second, or that of the network alone if
   * it is larger. Without a network, each network counts up to its share.
   */
  perSecond(product: string, network?: string): number {
    const ofAll = Math.max(this.#lastSecond.get(product) ?? 0, this.#attempts.get(product) ?? 0);
    return network === undefined
      ? ofAll
      : Math.max(ofAll, this.#byNetwork.countOf(`${product}|${wideNetwork(network)}`));
  }

  /** Whether claims of a network need a proof of work: the network storms the campaign, or many networks do. */
  isSurging(attempted: Attempted, network: string): boolean {
    return this.perSecond(attempted.product, network) > this.#limitOf(attempted);
  }

  /** Begins a second. */
  nextSecond(): void {
    this.#lastSecond = this.#attempts;
    this.#attempts = new Map();
  }

  #limitOf({ limits }: Attempted): number {
    return (limits.surgeAttemptsPerMinute ?? this.limits.surgeAttemptsPerMinute) / 60;
  }
}
