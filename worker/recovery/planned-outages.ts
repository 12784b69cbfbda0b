import { EngineUnavailable } from '../../shared/errors/faults.js';
import type { StoredCampaign } from '../../shared/postgres/campaigns.js';
import type { Queryable } from '../../shared/postgres/pool.js';
import type { Epoch } from '../../shared/redis/epoch.js';
import { campaignKeys, keys } from '../../shared/redis/keys.js';
import { nextGeneration } from './begin-history.js';
import { diagnose } from './diagnosis.js';
import { lookAt } from './look.js';
import type { RecoveryDeps } from './recovery.js';
import { LockLost, RecoveryLock } from './recovery-lock.js';
import { tokenOf } from './redis-fill.js';
import { restoreCampaigns } from './restore-campaign.js';
import { UnsavedEntries } from './unsaved-entries.js';

/** A shard that is out of service for good. */
export type Retired = { token: string; generation: number | null };

/**
 * Takes a shard that is in service out of service for a purpose: to fill a campaign again, to give it to another shard,
 * or to end the shard. The lock of the recovery keeps other workers away meanwhile.
 */
export class PlannedOutages {
  readonly #lock: RecoveryLock;
  readonly #unsaved: UnsavedEntries;

  constructor(readonly deps: RecoveryDeps) {
    this.#lock = new RecoveryLock(deps.lockDatabase, deps.histories.shard);
    this.#unsaved = new UnsavedEntries(deps);
  }

  /** Fills one campaign from Postgres although Redis is in service. Every call gets 503 for that moment. */
  async refill(campaign: StoredCampaign, reason: string): Promise<void> {
    const { deps } = this;
    const done = await this.#lock.hold(async (assertHeld) => {
      const look = await lookAt(this.deps);
      const { epoch } = look;
      if (epoch === null || diagnose(look).kind !== 'in_service') {
        throw new EngineUnavailable('redis', 'it is being recovered, or it is ahead of Postgres');
      }
      deps.log.warn({ campaign: campaign.productId, reason }, 'a campaign is refilled from Postgres');
      const token = tokenOf(deps.processId, epoch.generation);
      await this.#takeOutOfService(token);
      await restoreCampaigns(deps, [campaign], token, assertHeld);
      await deps.fill.end(token, epoch);
    });
    if (!done) throw new EngineUnavailable('redis', 'another worker is recovering it');
  }

  /**
   * Gives a campaign away: takes the shard out of service, persists its journal, lets `give` put the campaign into
   * another shard, and begins a new history without the campaign in the transaction that `record`s the move. A worker
   * that has recovered the shard meanwhile, and a process that cannot read Postgres, thus never use an old place.
   * @param record gets that transaction @param learned resolves when every live process knows the move
   * @throws EngineUnavailable when the shard is not in service, or another worker recovers it
   * @throws LockLost when another worker has recovered the shard meanwhile; nothing has moved
   */
  async giveAway(
    keyNames: readonly string[],
    {
      give,
      record,
      learned,
    }: {
      give: () => Promise<void>;
      record: (client: Queryable) => Promise<void>;
      learned: () => Promise<void>;
    },
  ): Promise<void> {
    const { deps } = this;
    const done = await this.#lock.hold(async (assertHeld) => {
      const look = await lookAt(deps);
      const { epoch, server } = look;
      if (epoch === null || diagnose(look).kind !== 'in_service')
        throw new EngineUnavailable('redis', 'it is being recovered, or it is ahead of Postgres');
      const generation = await nextGeneration(look, deps.nowMs, deps.histories.shard);
      const token = tokenOf(deps.processId, generation);
      await this.#takeOutOfService(token);
      try {
        await give();
        assertHeld();
        await this.#recordAs({ generation, server }, epoch.generation, record);
      } catch (error) {
        // Nothing has moved, so the shard goes on as it was, unless another worker has begun to recover it.
        await deps.fill.end(token, epoch).catch(() => {});
        throw error;
      }
      await this.#unsaved.untilReported(generation);
      await learned();
      // The token may have expired, because the work was not here. The lock keeps other workers away.
      assertHeld();
      await deps.fill.begin(token);
      await deps.fill.write(token, 'remove', keyNames);
      await deps.fill.end(token, { generation, server });
      await deps.histories.open(generation);
      await deps.watch.beat();
    });
    if (!done) throw new EngineUnavailable('redis', 'another worker is recovering it');
  }

  /** Removes what an interrupted move has left of a campaign that is in another shard. */
  async discard({ productId }: StoredCampaign): Promise<void> {
    const { deps } = this;
    const done = await this.#lock.hold(async () => {
      if (deps.has(productId)) return;
      const keyNames = [...campaignKeys(productId), keys.payments(productId)];
      await deps.sale.scripts.redis.unlink(...keyNames);
    });
    if (!done) throw new EngineUnavailable('redis', 'another worker is recovering it');
  }

  /** @throws LockLost when the shard has another history than the one that was retired */
  #recordAs(next: Epoch, retired: number, record: (client: Queryable) => Promise<void>): Promise<void> {
    const { database, cursor, histories } = this.deps;
    return database.transaction(async (client) => {
      const { cursor: afterId, generation } = await cursor.lockWithHistory(client);
      const begun = generation === retired && (await histories.begin(client, { ...next, afterId }, 'a campaign moved'));
      if (!begun) throw new LockLost('another worker has recovered the shard meanwhile; nothing has moved');
      await record(client);
    });
  }

  /**
   * Takes the shard out of service for good, and persists its journal. Repeating it is harmless.
   * @returns the token with which the caller may write to this shard, and its last generation (null = none)
   * @throws EngineUnavailable when Postgres lacks entries, or another worker recovers the shard
   */
  async retire(): Promise<Retired> {
    let retired: Retired = { token: '', generation: null };
    const done = await this.#lock.hold(async () => {
      const look = await lookAt(this.deps);
      if (look.epoch !== null && diagnose(look).kind !== 'in_service')
        throw new EngineUnavailable('redis', 'it is being recovered, or it is ahead of Postgres');
      const generation = look.postgres.latest?.generation ?? null;
      retired = { token: tokenOf(this.deps.processId, generation ?? 0), generation };
      await this.#takeOutOfService(retired.token);
    });
    if (!done) throw new EngineUnavailable('redis', 'another worker is recovering it');
    return retired;
  }

  async #takeOutOfService(token: string): Promise<void> {
    const { fill, drain, journal } = this.deps;
    await fill.begin(token);
    // No unit changes from here on, so the journal is complete now.
    await drain((await journal.position()).lastId);
  }
}
