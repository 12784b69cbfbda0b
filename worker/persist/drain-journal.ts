import { setTimeout as sleep } from 'node:timers/promises';
import type { JobResult } from '../../shared/contracts/jobs.js';
import { EngineUnavailable } from '../../shared/errors/faults.js';
import type { Metrics } from '../../shared/observability/metrics.js';
import { untilNext } from '../../shared/observability/shared-interval.js';
import type { RunningJob } from '../../shared/queues/job-worker.js';
import type { Journal } from '../../shared/redis/journal.js';
import { JOURNAL_START } from '../../shared/redis/journal-ids.js';
import type { RedisClock } from '../../shared/redis/redis-clock.js';
import type { Persist } from './persist.js';

/** How long a job waits for an entry before it checks whether it should end. */
const WAIT_MS = 500;
/** How often a job reports the backlog. */
const REPORT_EVERY_MS = 1_000;

export type DrainDeps = {
  shard: number;
  /** Has a connection of its own, which it blocks while it waits for entries. */
  journal: Journal;
  persist: Pick<Persist, 'upTo'>;
  /** Whether Redis is in service. A journal that is being recovered is not drained. */
  gate: { readonly isOpen: boolean; readonly reason: string };
  clock: Pick<RedisClock, 'nowMs'>;
  /** Adds the job that goes on. */
  goOn: (upTo: string) => Promise<unknown>;
  metrics: Metrics;
  limits: { gatherMs: number; drainRunMs: number; drainIdleMs: number; stuckAfterMs: number };
};

/**
 * Runs the jobs of the queue `persist` of one shard: drains its journal, batch after batch, from the cursor in
 * Postgres. The next batch collects entries while a batch is written, and for at least `gatherMs` unless a response
 * waits for the commit. So many promises share one transaction, and a checkout does not pay for a job. A run ends after
 * `drainRunMs`, or when no entry came for `drainIdleMs`. It keeps no state that matters: a second run finds nothing
 * left to do.
 */
export class DrainJournal {
  #running = 0;
  /** When a run last began to wait for an entry, or to persist (monotonic, ms). */
  #movedAt = 0;
  #persisted = JOURNAL_START;
  readonly #stop = new AbortController();

  constructor(readonly deps: DrainDeps) {}

  /** Whether this process is draining, and its run does not hang. */
  get isAtWork(): boolean {
    return this.#running > 0 && performance.now() - this.#movedAt < this.deps.limits.stuckAfterMs;
  }

  /** Makes the current run end after its batch. */
  stop(): void {
    this.#stop.abort();
  }

  /** @throws EngineUnavailable, JournalGap, ForeignHistory, PostgresBehind */
  async run(job: Pick<RunningJob, 'report'>): Promise<JobResult<'persist'>> {
    this.#running += 1;
    try {
      return await this.#drain(job);
    } catch (error) {
      await this.#report(job).catch(() => {});
      throw error;
    } finally {
      this.#running -= 1;
    }
  }

  /** Persists what the journal has, without a job, for `drainRunMs` at most. */
  async runDirectly(): Promise<void> {
    const { journal, persist, limits } = this.deps;
    const began = performance.now();
    while (!this.#stop.signal.aborted && performance.now() - began < limits.drainRunMs) {
      const found = await journal.waitForEntryAfter(this.#persisted, 1);
      if (found === null) return;
      this.#persisted = (await persist.upTo(found)).upTo;
    }
  }

  async #drain(job: Pick<RunningJob, 'report'>): Promise<JobResult<'persist'>> {
    const { shard, journal, persist, gate, goOn, metrics, limits } = this.deps;
    const done = { entries: 0, batches: 0 };
    const began = performance.now();
    let [lastAt, reportedAt] = [began, began];
    while (!this.#stop.signal.aborted) {
      this.#movedAt = performance.now();
      if (!gate.isOpen) throw new EngineUnavailable('redis', gate.reason || 'Redis has not been verified yet');
      const found = await journal.waitForEntryAfter(this.#persisted, Math.ceil(untilNext(WAIT_MS)));
      const startedAt = performance.now();
      if (found === null) {
        if (startedAt - lastAt >= limits.drainIdleMs) break;
        continue;
      }
      this.#movedAt = startedAt;
      const { upTo, isUrgent, entries } = await persist.upTo(found);
      metrics.journalGap.set({ shard }, 0);
      this.#persisted = upTo;
      done.entries += entries;
      done.batches += 1;
      lastAt = performance.now();
      if (lastAt - began >= limits.drainRunMs) {
        await goOn(upTo);
        break;
      }
      if (lastAt - reportedAt >= REPORT_EVERY_MS) {
        reportedAt = lastAt;
        await this.#report(job);
      }
      if (!isUrgent) await this.#pause(Math.max(0, limits.gatherMs - (lastAt - startedAt)));
    }
    return done;
  }

  async #report(job: Pick<RunningJob, 'report'>): Promise<void> {
    const { journal, clock } = this.deps;
    const { entries, oldestMs } = await journal.backlog();
    const oldestSeconds = oldestMs === null ? 0 : Math.max(0, Math.round((clock.nowMs() - oldestMs) / 1000));
    await job.report({ entries, oldest_seconds: oldestSeconds });
  }

  #pause(ms: number): Promise<void> {
    return sleep(ms, undefined, { signal: this.#stop.signal, ref: false }).catch(() => {});
  }
}
