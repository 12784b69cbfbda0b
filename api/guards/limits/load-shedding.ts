import { monitorEventLoopDelay, performance } from 'node:perf_hooks';
import { runEvery } from '../../../shared/observability/shared-interval.js';
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
/** Share of a second that the event loop must have been busy before its lag is sampled. */
const BUSY = 0.25;

/**
 * Accepts as many checkouts as this process can serve in time and rejects the rest before their bodies are read.
 * Confirmations, releases and reads are not counted, so that accepted checkouts can be completed.
 */
export class LoadShedder {
  #inFlight = 0;
  #lagMs = 0;
  readonly #delay = monitorEventLoopDelay({ resolution: SAMPLE_EVERY_MS });
  #isSampling = false;
  #busy = performance.eventLoopUtilization();
  #end = () => {};

  constructor(readonly limits: LoadShedderLimits) {}

  start(): void {
    this.#end = runEvery(LOOK_EVERY_MS, () => this.#look());
  }

  stop(): void {
    this.#delay.disable();
    this.#end();
  }

  get inFlight(): number {
    return this.#inFlight;
  }

  /**
   * Median lag of the event loop over the last second, because one long garbage collection is no overload; 0 while the
   * loop is not busy. A load that begins is seen after two seconds at most.
   */
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

  #look(): void {
    // A sample is the time since the previous one.
    this.#lagMs = this.#isSampling ? Math.max(0, this.#delay.percentile(50) / 1e6 - SAMPLE_EVERY_MS) : 0;
    const busy = performance.eventLoopUtilization();
    const isBusy = performance.eventLoopUtilization(busy, this.#busy).utilization >= BUSY;
    this.#busy = busy;
    if (this.#isSampling) this.#delay.reset();
    if (isBusy === this.#isSampling) return;
    this.#isSampling = isBusy;
    if (isBusy) this.#delay.enable();
    else this.#delay.disable();
  }
}
