import { setTimeout as sleep } from 'node:timers/promises';
import { CameBack, type ClaimErasure, type ErasureRun, StillActive } from '../../shared/archive/claim-erasure.js';
import type { UserId } from '../../shared/domain/ids.js';
import { Problem } from '../../shared/errors/catalogue.js';
import { writeAudit } from '../../shared/postgres/audit-log.js';
import type { ErasedRows, Erasure, Erasures } from '../../shared/postgres/erasures.js';
import {
  type ActiveCampaign,
  type CampaignOfUser,
  OTHER_TABLES,
  type UserRows,
} from '../../shared/postgres/user-rows.js';
import type { EventStream } from '../../shared/redis/event-stream.js';
import type { SupportOperator } from './support-actions.js';

/** A user who comes back while they are erased gets another pseudonym, at most this often in one call. */
const ROUNDS = 5;
const PUBLISH_WAIT_MS = 5_000;
const LOOK_AGAIN_MS = 50;
const EVENTS_AT_ONCE = 500;

export type EraseUserDeps = {
  erasures: Erasures;
  rows: UserRows;
  claims: ClaimErasure;
  stream: EventStream;
  /** Resolves when Postgres has every promise that was made before the call. @throws EngineUnavailable */
  persisted: () => Promise<void>;
  liftBan: (id: string, operator: SupportOperator) => Promise<unknown>;
  limits: { eraseMs: number; eraseSettleMs: number };
};

export type Erased = { id: string; done: boolean; rows: ErasedRows };

/** The call has worked for as long as it may. */
class OutOfTime extends Error {}

/**
 * Erases a user (docs/decisions/0056-rights.md): first their claims, then all other tables and the event stream. Each
 * step can be repeated, so an erasure that was interrupted continues with the next call, under the same pseudonym.
 */
export class EraseUser {
  constructor(readonly deps: EraseUserDeps) {}

  /** @throws Problem 409 while the user waits or has an unfinished reservation; EngineUnavailable */
  async erase(user: UserId, operator: SupportOperator): Promise<Erased> {
    const { erasures, persisted, limits } = this.deps;
    const until = performance.now() + limits.eraseMs;
    const erasure = await erasures.begin(user, operator.name);
    try {
      for (let round = 1; ; round += 1) {
        await persisted();
        await this.#assertInactive(user, erasure);
        // An interrupted call may have replaced rows in Postgres only, which have the pseudonym.
        const isFirst = round === 1;
        const found = await this.deps.rows.campaigns(isFirst ? [user, erasure.pseudonym] : [user], isFirst);
        if (found.length === 0 && round > 1) break;
        if (round > ROUNDS) throw new OutOfTime();
        await this.#claims(user, erasure, found, until);
      }
      await this.#elsewhere(user, erasure, operator, until);
      await this.#events(user, erasure);
      // Attempts that other processes have not written yet.
      await sleep(limits.eraseSettleMs);
      await this.#elsewhere(user, erasure, operator, until);
    } catch (error) {
      if (!(error instanceof OutOfTime)) throw error;
      return { id: erasure.id, done: false, rows: await erasures.rowsOf(erasure.id) };
    }
    return { id: erasure.id, done: true, rows: await this.#finish(erasure, operator) };
  }

  async #assertInactive(user: UserId, erasure: Erasure): Promise<void> {
    const active = await this.deps.rows.active(user);
    if (active.length === 0) return;
    await this.deps.erasures.withdraw(erasure.id);
    throw activeIn(active);
  }

  async #claims(user: UserId, erasure: Erasure, campaigns: readonly CampaignOfUser[], until: number): Promise<void> {
    const { claims, erasures } = this.deps;
    const run: ErasureRun = {
      proceed: () => {
        if (performance.now() > until) throw new OutOfTime();
      },
      count: (client, table, changed) => erasures.count(client, erasure.id, table, changed),
    };
    try {
      await claims.erase({ user, pseudonym: erasure.pseudonym }, campaigns, run);
    } catch (error) {
      if (error instanceof StillActive) throw activeIn([error.campaign]);
      if (!(error instanceof CameBack)) throw error;
      erasure.pseudonym = await erasures.renew(erasure.id);
    }
  }

  async #elsewhere(user: UserId, { id, pseudonym }: Erasure, operator: SupportOperator, until: number): Promise<void> {
    const { rows, erasures, liftBan } = this.deps;
    for (const ban of await rows.bansInForce(user)) await liftBan(ban, operator);
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
  async #events(user: UserId, { id }: Erasure): Promise<void> {
    const { rows, stream, erasures } = this.deps;
    const last = await rows.lastEvent();
    const giveUpAt = performance.now() + PUBLISH_WAIT_MS;
    while ((await stream.lastSeq()) < last) {
      if (performance.now() > giveUpAt) throw new OutOfTime();
      await sleep(LOOK_AGAIN_MS);
    }
    const removed = await stream.remove(({ json }) => isAbout(user, json), EVENTS_AT_ONCE);
    if (removed > 0) await erasures.count(rows.database, id, 'event_stream', removed);
  }

  async #finish({ id }: Erasure, { name, requestId }: SupportOperator): Promise<ErasedRows> {
    const { rows, erasures } = this.deps;
    const counted = await rows.database.transaction(async (client) => {
      const changed = await erasures.finish(client, id);
      const after = { erasure_id: id, rows: changed };
      if (changed)
        await writeAudit(client, {
          actor: name,
          action: 'user.erase',
          campaignId: null,
          before: null,
          after,
          requestId,
        });
      return changed;
    });
    return counted ?? (await erasures.rowsOf(id));
  }
}

/** Whether an event is about a user. Metadata of others may name the user too. @param json the CloudEvent */
function isAbout(user: UserId, json: string): boolean {
  // Spares parsing most events. Ids have no characters that JSON escapes.
  if (!json.includes(`user_id":"${user}"`)) return false;
  const { data } = JSON.parse(json) as { data: Record<string, unknown> };
  return data.user_id === user || data.rejected_user_id === user;
}

function activeIn(campaigns: readonly ActiveCampaign[]): Problem {
  const [first] = campaigns;
  const product = first?.product_id;
  const what =
    first?.state === 'waiting' ? `waits in the line of ${product}` : `has an unfinished reservation of ${product}`;
  return new Problem('user_active', `The user ${what}.`, { members: { campaigns } });
}
