import { setTimeout as sleep } from 'node:timers/promises';
import { EngineUnavailable, PostgresBehind } from '../../shared/errors/faults.js';
import type { Log } from '../../shared/observability/log.js';
import type { Metrics } from '../../shared/observability/metrics.js';
import { untilNext } from '../../shared/observability/shared-interval.js';
import { TransferNotOut } from '../../shared/projection/write-buckets.js';
import type { Journal } from '../../shared/redis/journal.js';
import { JOURNAL_START } from '../../shared/redis/journal-ids.js';
import type { RelayLease } from '../../shared/redis/relay-lease.js';
import { ForeignHistory, JournalGap } from './continuity.js';
import type { Persist } from './persist.js';

/** How often a relay that does not hold the lease, or waits for Redis to be in service, checks again. */
const LOOK_EVERY_MS = 250;
/** How long a relay waits for an entry before it checks its lease again. */
const WAIT_MS = 500;
/** The pause between two attempts doubles from the first value to the last. */
const FIRST_RETRY_MS = 50;
const LAST_RETRY_MS = 1_000;
/** How often a gap is logged until an operator has repaired it. */
const REPORT_GAP_EVERY_MS = 10_000;

export type RelayDeps = {
  shard: number;
  /** Has a connection of its own, which it blocks while it waits for entries. */
  journal: Journal;
  persist: Pick<Persist, 'upTo'>;
  /** Whether Redis is in service. A journal that is being recovered is not relayed. */
  inService: () => boolean;
  lease: Pick<RelayLease, 'hold' | 'release'>;
  metrics: Metrics;
  log: Log;
  limits: { gatherMs: number };
};

/**
 * Persists new journal entries as long as this worker holds the lease. The next batch collects entries while a batch is
 * written, and for at least `gatherMs` unless a response waits for the commit. So many promises share one transaction.
 * An entry after a quiet moment is persisted at once. The relay needs no queue and no write to Redis, so it can drain
 * the journal of a Redis that is full. It keeps no state that matters: a second relay finds nothing left to do.
 */
export class JournalRelay {
  #stopping = false;
  #loop: Promise<void> | null = null;
  #persisted = JOURNAL_START;
  #failures = 0;
  #gapReportedAt = Number.NEGATIVE_INFINITY;
  #abort = new AbortController();

  constructor(readonly deps: RelayDeps) {}

  start(): void {
    this.#loop = this.#run();
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    this.#abort.abort();
    await this.#loop;
    await this.deps.lease.release();
  }

  async #run(): Promise<void> {
    while (!this.#stopping) {
      try {
        if (!this.deps.inService() || !(await this.deps.lease.hold())) {
          await this.#pause(LOOK_EVERY_MS);
          continue;
        }
        await this.#relayOnce();
        this.#failures = 0;
      } catch (error) {
        this.#report(error);
        await this.#pause(Math.min(LAST_RETRY_MS, FIRST_RETRY_MS * 2 ** Math.min(this.#failures, 10)));
        this.#failures += 1;
      }
    }
  }

  async #relayOnce(): Promise<void> {
    const { shard, journal, persist, metrics, limits } = this.deps;
    const found = await journal.waitForEntryAfter(this.#persisted, Math.ceil(untilNext(WAIT_MS)));
    if (found === null) return;
    const began = performance.now();
    const { upTo, isUrgent } = await persist.upTo(found);
    metrics.journalGap.set({ shard }, 0);
    this.#persisted = upTo;
    if (!isUrgent) await this.#pause(Math.max(0, limits.gatherMs - (performance.now() - began)));
  }

  #report(error: unknown): void {
    const { shard, metrics, log } = this.deps;
    metrics.relayFailures.inc();
    if (error instanceof JournalGap || error instanceof PostgresBehind) {
      metrics.journalGap.set({ shard }, 1);
      if (performance.now() - this.#gapReportedAt < REPORT_GAP_EVERY_MS) return;
      this.#gapReportedAt = performance.now();
      log.error(
        { reason: error.message },
        'Postgres lacks journal entries that it had committed, so nothing is persisted. ' +
          'The sale goes on. Run: npm run reconcile -- --after-restore --dry-run',
      );
    } else if (error instanceof EngineUnavailable) {
      log.warn({ engine: error.engine, reason: error.message }, 'persisting failed; it will be retried');
    } else if (error instanceof TransferNotOut) {
      log.warn({ reason: error.message }, 'an entry waits for the journal of another shard');
    } else if (error instanceof ForeignHistory) {
      log.warn({ reason: error.message }, 'the journal of another history is not persisted');
    } else {
      log.error({ err: error }, 'persisting failed; it will be retried');
    }
  }

  #pause(ms: number): Promise<void> {
    return sleep(ms, undefined, { signal: this.#abort.signal, ref: false }).catch(() => {});
  }
}
