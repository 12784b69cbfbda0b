import { monitorEventLoopDelay } from 'node:perf_hooks';
import { unavailable } from '../../http/problem.js';

export type LoadShedderLimits = {
  /** Checkouts that wait for Redis at once in one process. */
  checkoutsInFlight: number;
  /** Lag of the event loop beyond which newcomers are refused. */
  eventLoopLagMs: number;
};

/** One turn of the loop that took long, when thousands came at once, is no overload; a second full of such turns is. */
const LOOK_EVERY_MS = 1_000;
/** How often the lag is sampled. Each sample wakes the process; at 10 ms that alone was half of what an idle API costs. */
const SAMPLE_EVERY_MS = 50;

/**
 * Takes in as many checkouts as this process can answer in time, and refuses the rest quickly, before their bodies are read.
 * Confirmations, releases and readings are not counted: what was accepted goes on being served.
 */
export class LoadShedder {
  #inFlight = 0;
  #lagMs = 0;
  readonly #delay = monitorEventLoopDelay({ resolution: SAMPLE_EVERY_MS });
  #timer: NodeJS.Timeout | null = null;

  constructor(readonly limits: LoadShedderLimits) {}

  start(): void {
    this.#delay.enable();
    this.#timer = setInterval(() => {
      // A sample is the time since the one before.
      this.#lagMs = Math.max(0, this.#delay.percentile(50) / 1e6 - SAMPLE_EVERY_MS);
      this.#delay.reset();
    }, LOOK_EVERY_MS).unref();
  }

  stop(): void {
    this.#delay.disable();
    if (this.#timer) clearInterval(this.#timer);
  }

  get inFlight(): number {
    return this.#inFlight;
  }

  /** Lag of the event loop over the last second: the median, since one long collection is no overload. */
  get lagMs(): number {
    return this.#lagMs;
  }

  /** Refuses who comes too many, before anything was done for him. @throws Problem 503 */
  requireRoom(): void {
    if (this.#inFlight >= this.limits.checkoutsInFlight || this.#lagMs > this.limits.eventLoopLagMs)
      throw unavailable();
  }

  /** Runs one checkout, or refuses it. @throws Problem 503 */
  async admit<Value>(work: () => Promise<Value>): Promise<Value> {
    this.enter();
    try {
      return await work();
    } finally {
      this.leave();
    }
  }

  /** Takes in one checkout, or refuses it; then `leave` must follow. @throws Problem 503 */
  enter(): void {
    this.requireRoom();
    this.#inFlight += 1;
  }

  leave(): void {
    this.#inFlight -= 1;
  }
}
