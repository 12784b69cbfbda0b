import pg from 'pg';
import type { UserId } from '../domain/ids.js';
import type { Queryable } from '../postgres/pool.js';
import {
  type ActiveCampaign,
  type CampaignOfUser,
  CLAIM_TABLES,
  type ClaimTable,
  ERASED_AT_ONCE,
  type UserRows,
} from '../postgres/user-rows.js';
import { MAX_ERASED } from '../sale/scripts/erase-user.js';
import type { UserRecords } from '../sale/user-records.js';

/** The user came back under the erased id, so that the pseudonym cannot be used for both. */
export class CameBack extends Error {}

/** The user waits, or holds an unpaid unit. */
export class StillActive extends Error {
  constructor(readonly campaign: ActiveCampaign) {
    super(`the user is active in ${campaign.product_id}`);
  }
}

export type ErasedNames = { user: UserId; pseudonym: UserId };

export type ClaimErasureDeps = {
  rows: UserRows;
  /** The records of a user in the shard of a campaign, or of their bucket. */
  recordsOf: (campaign: CampaignOfUser, user: UserId) => UserRecords;
};

/** What one erasure has beside its names. */
export type ErasureRun = {
  /** Called before each step. May throw to end the run, which can be repeated. */
  proceed: () => void;
  /** Called in the transaction that has changed rows of a campaign. @param ids of the rows */
  changed: (client: Queryable, table: ClaimTable, campaign: CampaignOfUser, ids: readonly string[]) => Promise<void>;
};

/**
 * Replaces a user by a pseudonym in the claims of campaigns (decision 56): in Postgres, then in Redis. The other order
 * would let the user claim an allowance again that Postgres still counts, so that the promise would be voided. Postgres
 * must have all promises of the user.
 */
export class ClaimErasure {
  constructor(readonly deps: ClaimErasureDeps) {}

  /** @throws StillActive, CameBack, EngineUnavailable */
  async erase(names: ErasedNames, campaigns: readonly CampaignOfUser[], run: ErasureRun): Promise<void> {
    // An interrupted run may have renamed some of the rows.
    const reservationsIn = async ({ id }: CampaignOfUser) => {
      const { rows } = this.deps;
      const ofUser = await rows.reservations(id, names.user, MAX_ERASED);
      return [...ofUser, ...(await rows.reservations(id, names.pseudonym, MAX_ERASED))];
    };
    // The others keep this pseudonym, which the caller then replaces.
    let cameBack: CameBack | null = null;
    const unlessBack = async (step: () => Promise<void>): Promise<boolean> => {
      try {
        await step();
        return true;
      } catch (error) {
        if (!(error instanceof CameBack)) throw error;
        cameBack = error;
        return false;
      }
    };
    const rejected = (await this.deps.rows.rejectedKeys(names.user)).map((key) => ({ key, order: null }));
    const left: CampaignOfUser[] = [];
    for (const campaign of campaigns) {
      const check = async () => this.#inRedis(names, campaign, await reservationsIn(campaign), run, true);
      if (await unlessBack(check)) left.push(campaign);
    }
    for (const campaign of left)
      await unlessBack(async () => {
        for (const table of CLAIM_TABLES) await this.#inPostgres(names, table, campaign, run);
        await this.deps.recordsOf(campaign, names.user).removeNamed(names.user, rejected);
        await this.#inRedis(names, campaign, await reservationsIn(campaign), run);
      });
    if (cameBack) throw cameBack;
  }

  async #inRedis(
    { user, pseudonym }: ErasedNames,
    campaign: CampaignOfUser,
    reservations: readonly string[],
    { proceed }: ErasureRun,
    check = false,
  ): Promise<void> {
    proceed();
    const records = this.deps.recordsOf(campaign, user);
    const outcome = await records.erase(campaign.productId, user, pseudonym, reservations, { check });
    if (outcome.kind === 'active') throw new StillActive({ product_id: campaign.productId, state: outcome.state });
    if (outcome.kind === 'taken') throw new CameBack();
  }

  /**
   * Removes the idempotency records of rows before their keys, so that an interrupted run finds them again. Claims on
   * orders go after the rows, because Postgres compares rows of one order; those of an interrupted run expire.
   */
  async #inPostgres(
    names: ErasedNames,
    table: ClaimTable,
    campaign: CampaignOfUser,
    { proceed, changed }: ErasureRun,
  ): Promise<void> {
    const { rows, recordsOf } = this.deps;
    for (;;) {
      proceed();
      const some = await rows.claims(table, campaign.id, names.user);
      if (some.length === 0) return;
      const records = recordsOf(campaign, names.user);
      await records.removeNamed(
        names.user,
        some.map(({ key }) => ({ key, order: null })),
      );
      const ids = some.map(({ id }) => id);
      await rows.database
        .transaction(async (client) => {
          const done = await rows.eraseClaims(client, table, campaign.id, names, ids);
          if (done.length > 0) await changed(client, table, campaign, done);
        })
        .catch((error: unknown) => {
          throw error instanceof pg.DatabaseError && error.code === '23505' ? new CameBack() : error;
        });
      await records.removeNamed(
        names.user,
        some.map(({ order }) => ({ key: null, order })),
      );
      if (some.length < ERASED_AT_ONCE) return;
    }
  }
}
