import type { VelocityStore } from '../../../shared/sale/velocity-store.js';
import { LocalQuota } from '../limits/local-quota.js';

const FLUSH_EVERY_MS = 1_000;

/** What one device does in a second beyond this is no crowd: it is refused by its own quota. */
const ATTEMPTS_OF_ONE = 20;

export type VelocityLimits = { callersKept: number };

/**
 * Counts two things of each campaign. Attempts, in this process alone: the price of a proof of work goes by them. And what was
 * promised to different users: once a second the sums go to Redis, where the worker judges whether the campaign has to be paused.
 * Refusals and replays are no promises, so nobody can pause a sale with requests that take nothing.
 */
export class Velocity {
  #attempts = new Map<string, number>();
  #lastSecond = new Map<string, number>();
  #promises = new Map<string, number>();
  #timer: NodeJS.Timeout | undefined;
  readonly #bySource: LocalQuota;
  /** A user who takes and gives back is one user. */
  readonly #byUser: LocalQuota;

  constructor(
    readonly board: VelocityStore,
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
   * Counts an attempt, however it ends.
   * @param product "" = none that anybody sells: there are as many of those as somebody makes up, and they are not told apart
   * @param source the device, or who else is behind it
   */
  attempted(product: string, source: string): void {
    if (this.#bySource.take(`${product}|${source}`) > 0) return;
    this.#attempts.set(product, (this.#attempts.get(product) ?? 0) + 1);
  }

  /** Counts a unit or a place that was promised to a user, once in a minute. */
  promised(product: string, user: string): void {
    if (this.#byUser.take(`${product}|${user}`) > 0) return;
    this.#promises.set(product, (this.#promises.get(product) ?? 0) + 1);
  }

  /** Attempts on a campaign in this process in about a second. */
  perSecond(product: string): number {
    return Math.max(this.#lastSecond.get(product) ?? 0, this.#attempts.get(product) ?? 0);
  }

  flush(): void {
    this.#lastSecond = this.#attempts;
    this.#attempts = new Map();
    const promises = this.#promises;
    this.#promises = new Map();
    this.board.add(Math.floor(this.nowMs() / 60_000), promises).catch(() => {
      // Redis is away, and so is the sale.
    });
  }
}
