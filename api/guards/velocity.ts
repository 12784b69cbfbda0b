import type { VelocityBoard } from '../../shared/redis/velocity-board.js';

const FLUSH_EVERY_MS = 1_000;

/** Counts attempts on each campaign. Here one costs a look-up; once a second the sums go to Redis, for the worker to judge. */
export class Velocity {
  #counts = new Map<string, number>();
  #lastSecond = new Map<string, number>();
  #timer: NodeJS.Timeout | undefined;

  constructor(
    readonly board: VelocityBoard,
    readonly nowMs: () => number,
  ) {}

  start(): void {
    this.#timer = setInterval(() => this.flush(), FLUSH_EVERY_MS);
    this.#timer.unref();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  /** @param product "" = none that anybody sells: there are as many of those as somebody makes up, and they are not told apart */
  count(product: string): void {
    this.#counts.set(product, (this.#counts.get(product) ?? 0) + 1);
  }

  /** Attempts on a campaign in this process in about a second. */
  perSecond(product: string): number {
    return Math.max(this.#lastSecond.get(product) ?? 0, this.#counts.get(product) ?? 0);
  }

  flush(): void {
    this.#lastSecond = this.#counts;
    this.#counts = new Map();
    this.board.add(Math.floor(this.nowMs() / 60_000), this.#lastSecond).catch(() => {
      // Redis is away, and so is the sale.
    });
  }
}
