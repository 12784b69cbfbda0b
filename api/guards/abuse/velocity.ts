import type { VelocityStore } from '../../../shared/sale/velocity-store.js';
import { LocalQuota } from '../limits/local-quota.js';

const FLUSH_EVERY_MS = 1_000;

/** Maximum number of attempts of one source that count per second. The source's own quota rejects the rest. */
const ATTEMPTS_OF_ONE = 20;

export type VelocityLimits = { callersKept: number };

/**
 * Counts attempts and promises of each campaign. Attempts are counted in this process alone and determine the cost of a
 * proof of work. Promises to distinct users are added up in Redis once a second; the worker reads the sums to decide
 * whether to pause the campaign. Refusals and replays are no promises, so requests that claim nothing cannot pause a
 * sale.
 */
export class Velocity {
  #attempts = new Map<string, number>();
  #lastSecond = new Map<string, number>();
  #promises = new Map<string, number>();
  #timer: NodeJS.Timeout | undefined;
  readonly #bySource: LocalQuota;
  /** Counts each user at most once per minute, even if they claim and release repeatedly. */
  readonly #byUser: LocalQuota;

  constructor(
    readonly store: Pick<VelocityStore, 'add'>,
    readonly nowMs: () => number,
    limits: VelocityLimits,
  ) {
    this.#bySource = new LocalQuota(ATTEMPTS_OF_ONE, 1_000, limits.callersKept);
    this.#byUser = new LocalQuota(1, 60_000, limits.callersKept);
  }

  start(): void {
    this.#timer = setInterval(() => this.flush(), FLUSH_EVERY_MS);
    this.#timer.unref();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  /**
   * Counts an attempt, whatever its outcome.
   * @param product "" = every unknown product, because clients can invent any number of them
   * @param source the device, or another key of the caller
   */
  attempted(product: string, source: string): void {
    if (this.#bySource.take(`${product}|${source}`) > 0) return;
    this.#attempts.set(product, (this.#attempts.get(product) ?? 0) + 1);
  }

  /** Counts a promise of a unit or a place to a user, at most once per minute. */
  promised(product: string, user: string): void {
    if (this.#byUser.take(`${product}|${user}`) > 0) return;
    this.#promises.set(product, (this.#promises.get(product) ?? 0) + 1);
  }

  /** Returns the number of attempts on a campaign in this process within about a second. */
  perSecond(product: string): number {
    return Math.max(this.#lastSecond.get(product) ?? 0, this.#attempts.get(product) ?? 0);
  }

  flush(): void {
    this.#lastSecond = this.#attempts;
    this.#attempts = new Map();
    const promises = this.#promises;
    this.#promises = new Map();
    this.store.add(Math.floor(this.nowMs() / 60_000), promises).catch(() => {
      // Without Redis there is no sale, so the count is not needed.
    });
  }
}
