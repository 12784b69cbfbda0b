import { setTimeout as sleep } from 'node:timers/promises';
import { settledWithin } from '../../shared/observability/settled-within.js';
import { untilNext } from '../../shared/observability/shared-interval.js';
import { isFull } from '../../shared/queues/job-worker.js';
import type { CommitWatermark } from '../../shared/redis/commit-watermark.js';
import type { Journal } from '../../shared/redis/journal.js';
import type { DrainJournal } from './drain-journal.js';

/** How often a feeder checks whether Redis is in service, and whether the job in its own process has ended. */
const LOOK_EVERY_MS = 250;
const WAIT_MS = 1_000;
const STOP_LIMIT_MS = 1_500;
/** How often a job is added while entries are not committed. */
const FEED_EVERY_MS = 500;
/** How long the feeder waits until the queue has taken a job. */
const ADD_LIMIT_MS = 1_000;

export type FeederDeps = {
  /** Has a connection of its own, which it blocks while it waits for entries. */
  journal: Journal;
  commits: Pick<CommitWatermark, 'upTo'>;
  drain: Pick<DrainJournal, 'isAtWork' | 'runDirectly'>;
  /** Adds the job; one that waits already is enough. */
  add: (upTo: string) => Promise<unknown>;
  inService: () => boolean;
  /** Called before each run without a job. */
  onFallback: () => void;
  /** Receives why entries could not be persisted without a job. */
  onFailed: (error: unknown) => void;
  limits: { gatherMs: number; stuckAfterMs: number; stuckRetryMs: number };
};

/**
 * Adds a job to the queue `persist` of one shard whenever the journal has an entry that is not committed. Every worker
 * does so, so a job that is lost is added again within half a second.
 *
 * The feeder drains without a job in two cases: when Redis is too full to take a job, because only draining makes room,
 * and when an entry has not been committed for `stuckAfterMs`, so that a lost wake-up or a defect of the queue costs
 * seconds at most: also if the queue does not take a job, or a job hangs. Two that drain at once do no harm.
 */
export class JournalFeeder {
  #loop: Promise<void> | null = null;
  /** The first entry that is not committed, and since when it is the first (monotonic, ms). */
  #first = { id: '', since: 0 };
  #triedAt = Number.NEGATIVE_INFINITY;
  /** The call that adds a job, until it ends. */
  #adding: Promise<unknown> | null = null;
  readonly #stop = new AbortController();

  constructor(readonly deps: FeederDeps) {}

  start(): void {
    this.#loop = this.#run();
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    // It may wait for a Redis that is away.
    await settledWithin(this.#loop, STOP_LIMIT_MS);
  }

  async #run(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      try {
        // The job of this process waits for entries itself, and goes on by another job if it has to end.
        if (!this.deps.inService() || this.deps.drain.isAtWork) await this.#pause(LOOK_EVERY_MS);
        else await this.#feedOnce();
      } catch (error) {
        this.deps.onFailed(error);
        await this.#pause(FEED_EVERY_MS);
      }
    }
  }

  async #feedOnce(): Promise<void> {
    const { journal, commits, limits, onFailed } = this.deps;
    const found = await journal.waitForEntryAfter(commits.upTo, Math.ceil(untilNext(WAIT_MS)));
    if (found === null) return;
    if (found !== this.#first.id) this.#first = { id: found, since: performance.now() };
    try {
      await this.#add(found);
    } catch (error) {
      if (isFull(error)) {
        await this.#drainDirectly();
        return this.#pause(limits.gatherMs);
      }
      onFailed(error);
    }
    const now = performance.now();
    if (now - this.#first.since > limits.stuckAfterMs && now - this.#triedAt > limits.stuckRetryMs) {
      this.#triedAt = now;
      await this.#drainDirectly();
    }
    await this.#pause(FEED_EVERY_MS);
  }

  /** Adds a job, unless the last one is still being added. @throws Error also if the queue does not respond */
  async #add(found: string): Promise<void> {
    this.#adding ??= this.deps.add(found).finally(() => {
      this.#adding = null;
    });
    const adding = this.#adding;
    const isAdded = await Promise.race([adding.then(() => true), sleep(ADD_LIMIT_MS, false, { ref: false })]);
    if (isAdded) return;
    // Its failure has been reported as this one.
    adding.catch(() => {});
    throw new Error(`the queue has not taken a job for ${ADD_LIMIT_MS} ms`);
  }

  #drainDirectly(): Promise<void> {
    this.deps.onFallback();
    return this.deps.drain.runDirectly();
  }

  #pause(ms: number): Promise<void> {
    return sleep(ms, undefined, { signal: this.#stop.signal, ref: false }).catch(() => {});
  }
}
