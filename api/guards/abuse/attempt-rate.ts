import { LocalQuota } from '../limits/local-quota.js';

const PERIOD_MS = 1_000;

/** Maximum number of attempts of one source that count per second. The source's own quota rejects the rest. */
const ATTEMPTS_OF_ONE = 20;

/**
 * Counts the attempts at each campaign in this process. They determine the cost of a proof of work. How many users get
 * promises is counted by the script that makes them (lua/includes/velocity.lua).
 */
export class AttemptRate {
  #attempts = new Map<string, number>();
  #lastSecond = new Map<string, number>();
  #timer: NodeJS.Timeout | undefined;
  readonly #bySource: LocalQuota;

  constructor(limits: { callersKept: number }) {
    this.#bySource = new LocalQuota(ATTEMPTS_OF_ONE, PERIOD_MS, limits.callersKept);
  }

  start(): void {
    this.#timer = setInterval(() => this.nextSecond(), PERIOD_MS);
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
  add(product: string, source: string): void {
    if (this.#bySource.take(`${product}|${source}`) > 0) return;
    this.#attempts.set(product, (this.#attempts.get(product) ?? 0) + 1);
  }

  /** Returns the number of attempts at a campaign in this process within about a second. */
  perSecond(product: string): number {
    return Math.max(this.#lastSecond.get(product) ?? 0, this.#attempts.get(product) ?? 0);
  }

  /** Begins a second. */
  nextSecond(): void {
    this.#lastSecond = this.#attempts;
    this.#attempts = new Map();
  }
}
