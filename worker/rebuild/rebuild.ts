import { EngineUnavailable } from '../../shared/errors/faults.js';
import type { Log } from '../../shared/observability/log.js';
import type { CampaignsTable, StoredCampaign } from '../../shared/postgres/campaigns.js';
import type { JournalCursor } from '../../shared/postgres/journal-cursor.js';
import type { Database } from '../../shared/postgres/pool.js';
import type { Salvage } from '../../shared/postgres/salvage.js';
import { readEpoch, removeEpoch, writeEpoch } from '../../shared/redis/epoch.js';
import { compareJournalIds, type Journal } from '../../shared/redis/journal.js';
import { CampaignRestore } from '../../shared/redis/restore.js';
import type { SaleStore } from '../../shared/redis/sale-store.js';
import { restoreCampaign } from './restore-campaign.js';

const LOOK_EVERY_MS = 500;
/** API processes connect again within a quarter of a second and need one statement. */
const SALVAGE_MS = 1_000;
/** PostgreSQL's advisory locks are named by number; any would do that nobody else uses here. */
const REBUILD_LOCK = 7_102_001;

export type RebuildParts = {
  database: Database;
  campaigns: CampaignsTable;
  cursor: JournalCursor;
  journal: Journal;
  salvage: Salvage;
  /** A store without a gate: it fills the Redis that the gate keeps others from. */
  sale: SaleStore;
  /** Writes what the journal still has, before anything is thrown away. */
  drain: (upTo: string) => Promise<void>;
  nowMs: () => Promise<number>;
  idempotencyTtlMs: number;
  log: Log;
};

/**
 * Fills Redis from Postgres when it turns out to be empty, or older than Postgres. Until that is done there is no epoch in
 * it, and everybody answers 503: never "sold out" or "unknown". Workers agree by a lock in Postgres on who does it.
 */
export class Rebuild {
  #stopping = false;
  #loop: Promise<void> | null = null;

  constructor(readonly parts: RebuildParts) {}

  /** Looks for as long as the worker runs: Redis may be lost without its connection being lost. */
  start(): void {
    this.#loop = this.#watch();
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    await this.#loop;
  }

  /** @returns whether it had to be filled. @throws EngineUnavailable when either engine is away */
  async ensureFilled(): Promise<boolean> {
    if (!(await this.#reason())) return false;
    return this.parts.database.withClient(async (client) => {
      await client.query('select pg_advisory_lock($1)', [REBUILD_LOCK]);
      // Another worker may have been first.
      const reason = await this.#reason();
      if (reason) {
        // A lock that was lost with its connection must not end with two workers filling at once.
        await this.#fill(reason, async () => void (await client.query('select 1')));
      }
      await client.query('select pg_advisory_unlock($1)', [REBUILD_LOCK]);
      return reason !== null;
    });
  }

  /** Fills one campaign from Postgres although Redis is in service: everybody is told to come back for that moment. */
  async refill(campaign: StoredCampaign, reason: string): Promise<void> {
    await this.parts.database.withClient(async (client) => {
      await client.query('select pg_advisory_lock($1)', [REBUILD_LOCK]);
      const { redis } = this.parts.sale.scripts;
      this.parts.log.warn({ campaign: campaign.productId, reason }, 'the campaign is filled from Postgres');
      await engine(() => removeEpoch(redis));
      // Nobody moves a unit of it from here on, so what the journal has now is all.
      await new CampaignRestore(redis, campaign.productId).takeOut();
      await this.parts.drain(await this.parts.journal.lastId());
      // Read again: the drain may have changed its status and its total.
      const newest = (await this.parts.campaigns.find(campaign.productId)) ?? campaign;
      await restoreCampaign(this.parts, newest, await this.parts.nowMs());
      await client.query('select 1');
      await engine(() => writeEpoch(redis, { generation: Date.now(), server: '' }));
      await client.query('select pg_advisory_unlock($1)', [REBUILD_LOCK]);
    });
  }

  /** Why Redis cannot be trusted; null when it can. */
  async #reason(): Promise<string | null> {
    const { journal, cursor, sale } = this.parts;
    const epoch = await engine(() => readEpoch(sale.scripts.redis));
    if (epoch === null) return 'it is empty';
    // In this order: the cursor may move on meanwhile, the journal is never behind it.
    const committed = await cursor.read();
    if (compareJournalIds(await journal.lastId(), committed) < 0) return 'it is older than Postgres';
    return (await this.parts.salvage.isEmpty()) ? null : 'an API saved promises that it lost, late';
  }

  async #fill(reason: string, assertLocked: () => Promise<void>): Promise<void> {
    const { campaigns, cursor, journal, sale, log } = this.parts;
    const { redis } = sale.scripts;
    const began = performance.now();
    log.warn({ reason }, 'Redis is rebuilt from Postgres; until then everybody is told to come back');
    await engine(() => removeEpoch(redis));
    for (const { productId } of await campaigns.toRestore()) {
      await new CampaignRestore(redis, productId).takeOut();
    }
    const last = await journal.lastId();
    if (compareJournalIds(last, await cursor.read()) > 0) await this.parts.drain(last);
    await journal.continueAfter(await cursor.read());
    if ((await campaigns.list(1, null)).length > 0) await this.#takeSalvaged();
    // Read last: what was drained and salvaged changes statuses, totals and counters.
    const all = await campaigns.toRestore();
    const now = await this.parts.nowMs();
    for (const campaign of all) await restoreCampaign(this.parts, campaign, now);
    await assertLocked();
    await engine(() => writeEpoch(redis, { generation: Date.now(), server: '' }));
    const seconds = Math.round(performance.now() - began) / 1000;
    log.warn({ campaigns: all.length, seconds }, 'Redis is rebuilt and in service');
  }

  /** API processes have noticed by now, and write what they told and Postgres does not have. */
  async #takeSalvaged(): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, SALVAGE_MS));
    const { applied, refused } = await this.parts.salvage.apply();
    if (applied > 0) this.parts.log.warn({ applied }, 'promises that Redis had lost were taken from the API processes');
    for (const { promise, reason } of refused) {
      this.parts.log.error({ promise, reason }, 'Postgres refused a promise that Redis had lost');
    }
  }

  async #watch(): Promise<void> {
    while (!this.#stopping) {
      try {
        await this.ensureFilled();
      } catch (error) {
        // An engine is away: what the commands of others report is not repeated here every half second.
        if (!(error instanceof EngineUnavailable))
          this.parts.log.error({ err: error }, 'Redis could not be rebuilt; trying again');
      }
      await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
    }
  }
}

async function engine<Value>(call: () => Promise<Value>): Promise<Value> {
  try {
    return await call();
  } catch (error) {
    throw new EngineUnavailable('redis', error instanceof Error ? error.message : String(error), { cause: error });
  }
}
