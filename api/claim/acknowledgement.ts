import { EngineUnavailable } from '../../shared/errors/faults.js';
import type { CommitWatermark } from '../../shared/redis/commit-watermark.js';
import { type Durability, durabilityOf } from '../../shared/redis/idempotency-record.js';
import type { Journal } from '../../shared/redis/journal.js';
import type { ReplicationWatch } from './replication-watch.js';

/** What a script said about its reply. */
export type Acknowledged = {
  /** Whether the campaign's responses wait for Postgres (`confirmation: durable`). */
  durable: boolean;
  /** The last entry that the call appended; "" = none, since it repeats what an earlier one has appended. */
  journalId: string;
};

/**
 * Holds a response back until what it acknowledges is as safe as the campaign and the configuration demand: committed to
 * Postgres for `confirmation: durable`, on `REDIS_WAIT_REPLICAS` replicas otherwise. It applies to every response that
 * acknowledges anything, repetitions included: the first response may never have arrived.
 */
export class Acknowledgement {
  constructor(
    readonly commits: CommitWatermark,
    readonly replication: ReplicationWatch,
    readonly journal: Pick<Journal, 'lastId'>,
    readonly limits: { durableWaitMs: number },
  ) {}

  /** True when responses of campaigns that are not durable go out at once: callers may skip `held`. */
  get isImmediate(): boolean {
    return this.replication.replicas === 0;
  }

  /** The durability of a response that `held` has let go. */
  durabilityOf(durable: boolean): Durability {
    return durabilityOf(durable, this.replication.replicas);
  }

  /**
   * Returns when the response may be given.
   * @throws EngineUnavailable when that takes too long: the promise is kept, and a retry gets the response
   */
  async held({ durable, journalId }: Acknowledged): Promise<void> {
    if (durable) {
      // A repetition: its entry is not known any more, but it is not later than the last one.
      const upTo = journalId || (await this.journal.lastId());
      if (!(await this.commits.committed(upTo, this.limits.durableWaitMs))) {
        throw new EngineUnavailable('postgres', `nothing was committed up to ${upTo} in time`);
      }
    } else if (!this.isImmediate && !(await this.replication.replicated())) {
      throw new EngineUnavailable('redis', 'not enough replicas have the promise in time');
    }
  }
}
