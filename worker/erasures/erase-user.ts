import { setTimeout as sleep } from 'node:timers/promises';
import { CameBack, type ClaimErasure, type ErasureRun, StillActive } from '../../shared/archive/claim-erasure.js';
import type { UserId } from '../../shared/domain/ids.js';
import { writeAudit } from '../../shared/postgres/audit-log.js';
import type { Erasures, OpenErasure } from '../../shared/postgres/erasures.js';
import { type CampaignOfUser, OTHER_TABLES, type UserRows } from '../../shared/postgres/user-rows.js';
import { insertErasedUser } from '../../shared/projection/new-events.js';
import type { EventStream } from '../../shared/redis/event-stream.js';

/** A user who comes back while they are erased gets another pseudonym, at most this often in one run. */
const ROUNDS = 5;
const EVENTS_AT_ONCE = 500;

export type EraseUserDeps = {
  erasures: Erasures;
  rows: UserRows;
  claims: ClaimErasure;
  stream: EventStream;
  /** Resolves when Postgres has every promise that was made before the call. @throws EngineUnavailable */
  persisted: () => Promise<void>;
  liftBan: (id: string, actor: string) => Promise<unknown>;
  limits: { runMs: number; settleMs: number; publishWaitMs: number };
};

/**
 * `waits`: the user is in a line, or has a unit that is unpaid or of an open campaign. `unfinished`: the next run goes
 * on.
 */
export type ErasureOutcome = 'done' | 'waits' | 'unfinished';

/** The run has worked for as long as it may. */
class OutOfTime extends Error {}

/**
 * Erases a user (docs/decisions/0056-rights.md): first their claims, then all other tables and the event stream. Each
 * step can be repeated, so an erasure that was interrupted continues with the next run, under the same pseudonym.
 */
export class EraseUser {
  constructor(readonly deps: EraseUserDeps) {}

  /** One run. @throws EngineUnavailable */
  async erase(erasure: OpenErasure): Promise<ErasureOutcome> {
    const { erasures, persisted, limits } = this.deps;
    const { user, inOpenCampaigns } = erasure;
    const waits = async () => (await erasures.active(user, inOpenCampaigns)).length > 0;
    if (await waits()) return 'waits';
    const until = performance.now() + limits.runMs;
    try {
      for (let round = 1; ; round += 1) {
        await persisted();
        if (await waits()) return 'waits';
        // An interrupted call may have replaced rows in Postgres only, which have the pseudonym.
        const isFirst = round === 1;
        const found = await this.deps.rows.campaigns(isFirst ? [user, erasure.pseudonym] : [user], isFirst);
        if (found.length === 0 && round > 1) break;
        if (round > ROUNDS) throw new OutOfTime();
        await this.#claims(erasure, found, until);
      }
      await this.#elsewhere(erasure, until);
      await this.#events(erasure);
      // Attempts that other processes have not written yet.
      await sleep(limits.settleMs);
      await this.#elsewhere(erasure, until);
    } catch (error) {
      if (error instanceof StillActive) return 'waits';
      if (error instanceof OutOfTime) return 'unfinished';
      throw error;
    }
    await this.#finish(erasure);
    return 'done';
  }

  async #claims(erasure: OpenErasure, campaigns: readonly CampaignOfUser[], until: number): Promise<void> {
    const { claims, erasures } = this.deps;
    const run: ErasureRun = {
      proceed: () => {
        if (performance.now() > until) throw new OutOfTime();
      },
      changed: async (client, table, { id }, ids) => {
        await erasures.count(client, erasure.id, table, ids.length);
        if (table === 'redemptions') await insertErasedUser(client, id, erasure.pseudonym, ids);
      },
    };
    try {
      await claims.erase(erasure, campaigns, run);
    } catch (error) {
      if (!(error instanceof CameBack)) throw error;
      erasure.pseudonym = await erasures.renew(erasure.id);
    }
  }

  async #elsewhere({ id, user, pseudonym, actor }: OpenErasure, until: number): Promise<void> {
    const { rows, erasures, liftBan } = this.deps;
    for (const ban of await rows.bansInForce(user)) await liftBan(ban, actor);
    for (const table of OTHER_TABLES) {
      for (;;) {
        if (performance.now() > until) throw new OutOfTime();
        const changed = await rows.database.transaction(async (client) => {
          const some = await rows.eraseElsewhere(client, table, user, pseudonym);
          if (some > 0) await erasures.count(client, id, table, some);
          return some;
        });
        if (changed === 0) break;
      }
    }
  }

  /** Events that were written before carry the id. They are removed once they are in the stream. */
  async #events({ id, user }: OpenErasure): Promise<void> {
    const { rows, stream, erasures, limits } = this.deps;
    if (!(await stream.reaches(await rows.lastEvent(), limits.publishWaitMs))) throw new OutOfTime();
    const removed = await stream.remove(({ json }) => isAbout(user, json), EVENTS_AT_ONCE);
    if (removed > 0) await erasures.count(rows.database, id, 'event_stream', removed);
  }

  async #finish({ id, actor }: OpenErasure): Promise<void> {
    const { rows, erasures } = this.deps;
    await rows.database.transaction(async (client) => {
      const changed = await erasures.finish(client, id);
      if (!changed) return;
      const after = { erasure_id: id, rows: changed };
      // The entry of the request has the same `erasure_id`.
      await writeAudit(client, { actor, action: 'user.erase', campaignId: null, before: null, after, requestId: id });
    });
  }
}

/** Whether an event is about a user. Metadata of others may name the user too. @param json the CloudEvent */
function isAbout(user: UserId, json: string): boolean {
  // Spares parsing most events. Ids have no characters that JSON escapes.
  if (!json.includes(`user_id":"${user}"`)) return false;
  const { data } = JSON.parse(json) as { data: Record<string, unknown> };
  return data.user_id === user || data.rejected_user_id === user;
}
