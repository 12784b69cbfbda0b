import { EngineUnavailable } from '../../shared/errors/faults.js';
import type { StoredCampaign } from '../../shared/postgres/campaigns.js';
import type { Queryable } from '../../shared/postgres/pool.js';
import type { Epoch } from '../../shared/redis/epoch.js';
import { nextGeneration } from './begin-history.js';
import { diagnose, type Look } from './diagnosis.js';
import { lookAt } from './look.js';
import type { RecoveryDeps } from './recovery-deps.js';
import { LockLost, RecoveryLock } from './recovery-lock.js';
import { tokenOf } from './redis-fill.js';
import { restoreCampaigns } from './restore-campaign.js';
import { UnsavedEntries } from './unsaved-entries.js';

/** The steps of a move that concern other shards, and all processes (`PlannedOutages.giveAway`). */
export type MoveSteps = {
  record: (client: Queryable) => Promise<void>;
  arrive: () => Promise<void>;
  learned: () => Promise<void>;
};

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

  /**
   * Fills one campaign from Postgres although Redis is in service. Every call gets 503 for that moment.
   * @throws EngineUnavailable when the campaign is in another shard, the shard is not in service, or another worker
   *   recovers it
   */
  refill({ productId }: StoredCampaign, reason: string): Promise<void> {
    const { deps } = this;
    return this.#inService(async ({ epoch }, assertHeld) => {
      await deps.places.map.read(deps.database);
      const campaign = await deps.campaigns.find(productId);
      if (!campaign || !deps.places.isIn(campaign) || deps.places.map.isSetBack)
        throw new EngineUnavailable('postgres', 'it is not known whether the campaign is here');
      deps.log.warn({ campaign: productId, reason }, 'a campaign is refilled from Postgres');
      const token = tokenOf(deps.processId, epoch.generation);
      await this.#takeOutOfService(token);
      await restoreCampaigns(deps, [campaign], token, assertHeld);
      await deps.fill.end(token, epoch);
    });
  }

  /**
   * Gives a campaign away: takes the shard out of service, persists its journal, and begins a new history without the
   * campaign in the transaction that `record`s the move. Then it removes the campaign, and lets it `arrive` in another
   * shard. So no two shards have it at any moment, and a worker that has recovered the shard meanwhile, or a process
   * that cannot read Postgres, never uses an old place.
   * @param record gets that transaction @param learned resolves when every live process knows the move
   * @throws EngineUnavailable when the shard is not in service, or another worker recovers it
   * @throws LockLost when another worker has recovered the shard meanwhile; nothing has moved
   */
  giveAway({ no, productId }: StoredCampaign, { record, arrive, learned }: MoveSteps): Promise<void> {
    const { deps } = this;
    return this.#inService(async (look, assertHeld) => {
      const { epoch, server } = look;
      const generation = await nextGeneration(look, deps.nowMs, deps.histories.shard);
      const token = tokenOf(deps.processId, generation);
      const lastId = await this.#takeOutOfService(token);
      try {
        assertHeld();
        await this.#recordAs({ generation, server }, epoch.generation, record);
      } catch (error) {
        // If nothing has moved, the shard goes on as it was, unless another worker has begun to recover it. Otherwise,
        // or if Postgres cannot say, a worker recovers it.
        if (await this.#hasHistory(epoch.generation)) await deps.fill.end(token, epoch).catch(() => {});
        throw error;
      }
      // The token may have expired, because the work was not here. The lock keeps other workers away.
      assertHeld();
      await deps.fill.begin(token);
      await deps.fill.removeCampaign(token, no, productId);
      await arrive();
      await this.#unsaved.untilReported(generation);
      await learned();
      assertHeld();
      await deps.fill.begin(token);
      const after = await lookAt(deps);
      if (after.server !== server || after.journal.lastId !== lastId)
        throw new LockLost('another Redis has taken over the old shard; a worker recovers it');
      await deps.fill.end(token, { generation, server });
      await deps.histories.open(generation);
      await deps.watch.beat();
    });
  }

  /**
   * Whether the shard still has this history, after a transaction that may have begun another one: it waits for the
   * end of that transaction. False when Postgres does not reply.
   */
  async #hasHistory(generation: number): Promise<boolean> {
    const { database, cursor } = this.deps;
    return database
      .transaction((client) => cursor.lockWithHistory(client))
      .then(
        (latest) => latest.generation === generation,
        () => false,
      );
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
   * @returns its last generation (null = none)
   * @throws EngineUnavailable when Postgres lacks entries, or another worker recovers the shard
   */
  async retire(): Promise<number | null> {
    let generation: number | null = null;
    await this.#alone(async ({ postgres }) => {
      generation = postgres.latest?.generation ?? null;
      await this.#takeOutOfService(tokenOf(this.deps.processId, generation ?? 0));
    });
    return generation;
  }

  /** @throws EngineUnavailable when another worker recovers the shard, or when it is in service and not verified */
  async #alone(work: (look: Look, assertHeld: () => void) => Promise<void>): Promise<void> {
    const isAlone = await this.#lock.hold(async (assertHeld) => {
      const look = await lookAt(this.deps);
      if (look.epoch !== null && diagnose(look).kind !== 'in_service') throw notInService();
      await work(look, assertHeld);
    });
    if (!isAlone) throw new EngineUnavailable('redis', 'another worker is recovering it');
  }

  /** Does the same, and throws it when the shard is out of service. */
  #inService(work: (look: Look & { epoch: Epoch }, assertHeld: () => void) => Promise<void>): Promise<void> {
    return this.#alone(async ({ epoch, ...look }, assertHeld) => {
      if (epoch === null) throw notInService();
      await work({ ...look, epoch }, assertHeld);
    });
  }

  /** @returns the last entry of the journal, which Postgres has */
  async #takeOutOfService(token: string): Promise<string> {
    const { fill, drain, journal } = this.deps;
    await fill.begin(token);
    // No unit changes from here on, so the journal is complete now.
    const { lastId } = await journal.position();
    await drain(lastId);
    return lastId;
  }
}

const notInService = () => new EngineUnavailable('redis', 'it is being recovered, or it is ahead of Postgres');
