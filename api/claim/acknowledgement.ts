import type { ProductId } from '../../shared/domain/ids.js';
import { EngineUnavailable } from '../../shared/errors/faults.js';
import type { CommitWatermark } from '../../shared/redis/commit-watermark.js';
import { type Durability, durabilityOf } from '../../shared/redis/idempotency-record.js';
import type { Journal } from '../../shared/redis/journal.js';
import { JOURNAL_START } from '../../shared/redis/journal-ids.js';
import type { Shards } from '../../shared/shards/shards.js';
import type { ReplicationWatch } from './replication-watch.js';

/** The part of a script's reply that decides how long the response is held. */
export type Acknowledged = {
  /** Whether the campaign's responses wait for Postgres (`confirmation: durable`). */
  durable: boolean;
  /** Last journal entry that the call appended; "" = none, because the call was a repetition. */
  journalId: string;
};

/** The acknowledgements of all shards. */
export class Acknowledgements {
  constructor(
    readonly shards: Shards<{ index: number; acknowledgement: Acknowledgement }>,
    /** REDIS_WAIT_REPLICAS */
    readonly replicas: number,
  ) {}

  /** Whether responses of campaigns that are not durable need not be held, so that callers can skip `held`. */
  get isImmediate(): boolean {
    return this.replicas === 0;
  }

  /** Returns the durability of a response after `held`. */
  durabilityOf(durable: boolean): Durability {
    return durabilityOf(durable, this.replicas);
  }

  /** See `Acknowledgement.entryOf`. */
  entryOf(product: ProductId, journalId: string, bucket: number): Promise<string> {
    return this.shards.of(product, bucket).acknowledgement.entryOf(journalId);
  }

  /** Resolves when Postgres has every promise of a shard that was made before the call. @throws EngineUnavailable */
  async persisted(shard: number): Promise<void> {
    const { acknowledgement } = this.shards.all[shard] as { acknowledgement: Acknowledgement };
    await acknowledgement.held({ durable: true, journalId: '' });
  }

  /** @param product campaign whose promise is acknowledged @param bucket of the user or the reservation */
  held(product: ProductId, acknowledged: Acknowledged, bucket: number): Promise<void> {
    return this.shards.of(product, bucket).acknowledgement.held(acknowledged);
  }
}

/**
 * Holds a response about a campaign of one shard until the promise that it acknowledges is safe: committed to Postgres
 * for `confirmation: durable`, on `REDIS_WAIT_REPLICAS` replicas otherwise. It also applies to replays, because the
 * first response may never have arrived.
 */
export class Acknowledgement {
  constructor(
    readonly commits: CommitWatermark,
    readonly replication: ReplicationWatch,
    readonly journal: Pick<Journal, 'lastIdInService'>,
    readonly limits: { durableWaitMs: number },
  ) {}

  /**
   * Resolves when the response may be sent.
   * @throws EngineUnavailable if that takes too long; the promise is kept, and a retry gets the response
   */
  async held({ durable, journalId }: Acknowledged): Promise<void> {
    if (durable) {
      // The limit contains the question for the entry: a slow Redis must not add its time to that of Postgres.
      const until = performance.now() + this.limits.durableWaitMs;
      const upTo = await this.entryOf(journalId);
      // A Redis that was refilled has promised nothing since, and Postgres has what it was refilled from.
      if (upTo === JOURNAL_START) return;
      if (!(await this.commits.committed(upTo, Math.max(0, until - performance.now())))) {
        throw new EngineUnavailable('postgres', `the journal was not committed up to ${upTo} in time`);
      }
    } else if (this.replication.replicas > 0 && !(await this.replication.replicated())) {
      throw new EngineUnavailable('redis', 'not enough replicas confirmed the promise in time');
    }
  }

  /** The entry to wait for. That of a repetition is unknown, but it is not later than the last one of the journal. */
  async entryOf(journalId: string): Promise<string> {
    return journalId || (await this.journal.lastIdInService());
  }
}
