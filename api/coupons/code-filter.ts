import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import type { Log } from '../../shared/observability/log.js';
import type { CodeMarks, CodesTable } from '../../shared/postgres/codes.js';
import { CodeFeed } from './code-feed.js';
import { ScalableBloomFilter } from './scalable-bloom-filter.js';

const TRY_AGAIN_MS = 250;
/** As many codes are added at once: about a millisecond of work. */
const AT_ONCE_CODES = 1_000;

export type CodeFilterLimits = {
  perRange: number;
  pingEveryMs: number;
  pingIdleMs: number;
  trustMs: number;
  pingGiveUpMs: number;
};

/** A filter, and the marks up to which the codes in Postgres are in it. */
type Filled = { bloom: ScalableBloomFilter; marks: CodeMarks };

/**
 * Identifies codes that were never issued, without a round trip. It answers "may be issued" whenever it is not sure:
 * until it is loaded, and after an interrupted subscription until it has caught up
 * (docs/decisions/0011-code-filter.md).
 */
export class CodeFilter {
  readonly #feed: CodeFeed;
  #filled: Filled | null = null;
  /** The next filter while it is being loaded. Announced codes are added to both. */
  #filling: Filled | null = null;
  #caughtUp = false;
  /** Whether a crowded filter is being rebuilt. */
  #renewing = false;
  #generation = 0;
  #working: Promise<void> = Promise.resolve();
  readonly lookups = { unknown: 0, maybe: 0, unsure: 0 };
  falsePositives = 0;

  constructor(
    subscriber: Redis,
    readonly codes: CodesTable,
    readonly log: Log,
    readonly limits: CodeFilterLimits,
  ) {
    this.#feed = new CodeFeed(subscriber, limits, {
      codes: (announced) => this.#add(announced),
      subscribed: () => this.#catchUp(),
      lost: () => {
        this.#generation += 1;
        this.#caughtUp = false;
      },
    });
  }

  /** Starts loading in the background. */
  start(): void {
    this.#feed.start();
  }

  async stop(): Promise<void> {
    this.#generation += 1;
    this.#caughtUp = false;
    this.#feed.stop();
    await this.#working;
  }

  /** Returns false if a code was certainly never issued; true = look it up. @param code in canonical form */
  mayContain(code: string): boolean {
    if (!this.isSure || this.#filled === null) {
      this.lookups.unsure += 1;
      return true;
    }
    const may = this.#filled.bloom.has(code);
    this.lookups[may ? 'maybe' : 'unknown'] += 1;
    return may;
  }

  /** Counts a code that the filter did not exclude and that was never issued. */
  falsePositive(): void {
    this.falsePositives += 1;
  }

  /** Whether the filter is loaded and contains every code that can be committed by now. */
  get isSure(): boolean {
    return this.#caughtUp && this.#feed.isComplete;
  }

  /**
   * Size in bytes, number of codes, and the probability that a code that was never issued is looked up; 1 = the filter
   * is not loaded, or has lost its subscription.
   */
  get state(): { bytes: number; codes: number; errorRate: number } {
    const { bytes, codes, errorRate } = this.#filled?.bloom ?? { bytes: 0, codes: 0, errorRate: 1 };
    return { bytes, codes, errorRate: this.#caughtUp ? errorRate : 1 };
  }

  #add(announced: readonly string[]): void {
    for (const code of announced) {
      this.#filled?.bloom.add(code);
      this.#filling?.bloom.add(code);
    }
    if (!this.#caughtUp || this.#renewing || !this.#filled?.bloom.isCrowded) return;
    this.#renewing = true;
    this.#catchUp();
  }

  /** Queues a load behind the current one, which ends at its next page if the subscription was interrupted. */
  #catchUp(): void {
    const generation = this.#generation;
    this.#working = this.#working.then(() => this.#untilCaughtUp(generation));
  }

  async #untilCaughtUp(generation: number): Promise<void> {
    while (generation === this.#generation) {
      try {
        await this.#load(generation);
        return;
      } catch (error) {
        if (generation !== this.#generation) return;
        this.log.warn({ reason: error instanceof Error ? error.message : String(error) }, 'codes could not be read');
        await sleep(TRY_AGAIN_MS);
      }
    }
  }

  async #load(generation: number): Promise<void> {
    // A new filter knows only what is issued during its load. A load that was interrupted repeats a part.
    const mayBeKnown = this.#filling !== null || this.#filled?.bloom.isCrowded === false;
    const target = this.#filled?.bloom.isCrowded === false ? this.#filled : await this.#begin();
    // From here on, announced codes are added to the target. Codes that were announced before are committed after this
    // wait, or never will be.
    await this.codes.waitForIssuers();
    await this.codes.readBeyond(target.marks, this.limits.perRange, async (codes) => {
      for (let first = 0; first < codes.length; first += AT_ONCE_CODES) {
        if (generation !== this.#generation) throw new Error('the subscription was interrupted');
        const began = performance.now();
        for (const code of codes.slice(first, first + AT_ONCE_CODES)) target.bloom.add(code, mayBeKnown);
        // Requests have half of the process, also beside a load that takes minutes.
        await sleep(performance.now() - began);
      }
    });
    if (generation !== this.#generation) return;
    this.#filled = target;
    this.#filling = null;
    this.#renewing = false;
    this.#caughtUp = true;
    this.log.info(this.state, 'code filter loaded');
  }

  async #begin(): Promise<Filled> {
    if (!this.#filling) {
      const { numbered, shared } = await this.codes.count();
      this.#filling = { bloom: new ScalableBloomFilter(numbered + shared), marks: new Map() };
    }
    return this.#filling;
  }
}
