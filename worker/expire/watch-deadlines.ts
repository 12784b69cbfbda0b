import { setTimeout as sleep } from 'node:timers/promises';
import type { ProductId } from '../../shared/domain/ids.js';
import { settledWithin } from '../../shared/observability/settled-within.js';
import { untilNext } from '../../shared/observability/shared-interval.js';
import { isFull } from '../../shared/queues/job-worker.js';
import type { RedisClock } from '../../shared/redis/redis-clock.js';
import type { ActiveCampaigns } from './active-campaigns.js';

/** Campaigns in one job. The next check finds the others. */
const PRODUCTS_IN_JOB = 1_000;
const STOP_LIMIT_MS = 1_500;

export type WatchDeps = {
  active: Pick<ActiveCampaigns, 'read'>;
  clock: Pick<RedisClock, 'nowMs'>;
  /** Adds the job; one that waits or runs already is enough. */
  add: (products: readonly ProductId[]) => Promise<unknown>;
  /** Does the work of the job. */
  expire: (products: readonly ProductId[]) => Promise<unknown>;
  inService: () => boolean;
  /** Called before each run without a job. */
  onFallback: () => void;
  /** Receives why the deadlines could not be checked. */
  onFailed: (error: unknown) => void;
  limits: { deadlinesEveryMs: number; overdueMs: number };
};

/**
 * Adds a job to the queue `expire` of one shard when a deadline has passed or users wait. Every worker checks, at an
 * interval of its monotonic clock, and the script that expires reservations asks the clock of Redis. So no clock of a
 * process delays a deadline, and a job that is lost is added again at the next check.
 *
 * A worker expires reservations without a job if Redis is too full to take one, or if they have been overdue for
 * `overdueMs`. Two that expire at once do no harm.
 */
export class DeadlineWatch {
  #loop: Promise<void> | null = null;
  readonly #stop = new AbortController();

  constructor(readonly deps: WatchDeps) {}

  start(): void {
    this.#loop = this.#run();
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    // It may wait for a Redis that is away.
    await settledWithin(this.#loop, STOP_LIMIT_MS);
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      try {
        if (this.deps.inService()) await this.#check();
      } catch (error) {
        this.deps.onFailed(error);
      }
      const waitMs = untilNext(this.deps.limits.deadlinesEveryMs);
      await sleep(waitMs, undefined, { signal, ref: false }).catch(() => {});
    }
  }

  async #check(): Promise<void> {
    const { active, clock, add, limits } = this.deps;
    const nowMs = clock.nowMs();
    const found = await active.read(nowMs);
    if (found.length === 0) return;
    const products = found.map(({ product }) => product).slice(0, PRODUCTS_IN_JOB);
    try {
      await add(products);
    } catch (error) {
      if (!isFull(error)) throw error;
      return this.#expireDirectly(products);
    }
    const overdue = found.filter(({ firstDeadlineMs }) => firstDeadlineMs <= nowMs - limits.overdueMs);
    if (overdue.length > 0) await this.#expireDirectly(overdue.map(({ product }) => product));
  }

  async #expireDirectly(products: readonly ProductId[]): Promise<void> {
    this.deps.onFallback();
    await this.deps.expire(products);
  }
}
