import { monitorEventLoopDelay } from 'node:perf_hooks';
import { unavailable } from '../../http/problem.js';

export type LoadShedderLimits = {
  /** Maximum number of checkouts of one process that wait for Redis concurrently. */
  checkoutsInFlight: number;
  /** Lag of the event loop above which new checkouts are refused. */
  eventLoopLagMs: number;
};

/** How often the lag is read. One long turn of the event loop is no overload; a second of long turns is. */
const LOOK_EVERY_MS = 1_000;
/** How often the lag is sampled. Each sample wakes the process; at 10 ms, sampling took half the CPU of an idle API. */
const SAMPLE_EVERY_MS = 100;

/**
 * Accepts as many checkouts as this process can serve in time and rejects the rest before their bodies are read.
 * Confirmations, releases and reads are not counted, so that accepted checkouts can be completed.
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
      // A sample is the time since the previous one.
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

  /** Median lag of the event loop over the last second, because one long garbage collection is no overload. */
  get lagMs(): number {
    return this.#lagMs;
  }

  /** How near the process is to its limits: 1 = checkouts are refused. */
  get share(): number {
    const { checkoutsInFlight, eventLoopLagMs } = this.limits;
    return Math.max(this.#inFlight / checkoutsInFlight, this.#lagMs / eventLoopLagMs);
  }

  /** Rejects a checkout beyond the limits, before any work is done for it. @throws Problem 503 */
  requireRoom(): void {
    if (this.#inFlight >= this.limits.checkoutsInFlight || this.#lagMs > this.limits.eventLoopLagMs)
      throw unavailable();
  }

  /** Runs one checkout, or rejects it. @throws Problem 503 */
  async admit<Value>(work: () => Promise<Value>): Promise<Value> {
    this.enter();
    try {
      return await work();
    } finally {
      this.leave();
    }
  }

  /** Admits one checkout; the caller must call `leave` afterwards. @throws Problem 503 */
  enter(): void {
    this.requireRoom();
    this.#inFlight += 1;
  }

  leave(): void {
    this.#inFlight -= 1;
  }
}
