import { randomUUID } from 'node:crypto';
import { uuidv7 } from 'uuidv7';
import type { UserId } from '../domain/ids.js';
import { type AuditEntry, writeAudit } from './audit-log.js';
import type { Database, Queryable } from './pool.js';
import type { ActiveCampaign } from './user-rows.js';

/** Table → number of rows that an erasure has changed or deleted. */
export type ErasedRows = Record<string, number>;
/** An erasure that is not finished. */
export type OpenErasure = { id: string; user: UserId; pseudonym: UserId; actor: string; inOpenCampaigns: boolean };
/** `user`: null = it is finished. */
export type StoredErasure = { user: UserId | null; rows: ErasedRows; inOpenCampaigns: boolean };

/** A new pseudonym. It is random, so that it cannot be computed from the id, and no key has to be kept. */
export const newPseudonym = (): UserId => `erased-${randomUUID()}` as UserId;
/** How a pseudonym looks. */
export const PSEUDONYM = /^erased-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
/** Whether an id looks like a pseudonym. A user who has chosen such an id is not recognizable by it. */
export const isPseudonym = (user: UserId): boolean => PSEUDONYM.test(user);

/** Table `erasures`. It has the id of a user only while the erasure runs. Every method throws EngineUnavailable. */
export class Erasures {
  constructor(readonly database: Database) {}

  /**
   * Asks for an erasure, with an entry in the audit log. The erasure keeps the operator who asked first.
   * @param inOpenCampaigns true = also while a campaign of which the user has a unit is open; a later call may say so
   * @returns its id; that of the open one, if there is one of the user
   */
  ask(
    user: UserId,
    inOpenCampaigns: boolean,
    { actor, requestId }: Pick<AuditEntry, 'actor' | 'requestId'>,
  ): Promise<string> {
    const created = uuidv7();
    return this.database.transaction(async (client) => {
      const { rows } = await client.query<{ erasure_id: string }>(
        `insert into erasures (erasure_id, user_id, pseudonym, actor, in_open_campaigns) values ($1, $2, $3, $4, $5)
         on conflict (user_id) do update set next_look_at = now(),
           in_open_campaigns = erasures.in_open_campaigns or excluded.in_open_campaigns
         returning erasure_id`,
        [created, user, newPseudonym(), actor, inOpenCampaigns],
      );
      const [row] = rows;
      if (!row) throw new Error('an erasure was not stored');
      const { erasure_id } = row;
      // Without the user, whom the erasure must not leave in the log.
      const after = {
        erasure_id,
        in_open_campaigns: inOpenCampaigns,
        ...(erasure_id === created ? {} : { unchanged: true }),
      };
      const action = 'user.erase.request';
      await writeAudit(client, { actor, action, campaignId: null, before: null, after, requestId });
      return erasure_id;
    });
  }

  /** Takes erasures that are due, at most `limit`. They are due again after `retryMs`, if they are not finished. */
  async take(limit: number, retryMs: number): Promise<OpenErasure[]> {
    const { rows } = await this.database.query<OpenErasure>(
      `update erasures set next_look_at = now() + make_interval(secs => $2 / 1000.0) where erasure_id in (
         select erasure_id from erasures where user_id is not null and next_look_at <= now()
         order by next_look_at limit $1 for update skip locked)
       returning erasure_id as id, user_id as user, pseudonym, actor, in_open_campaigns as "inOpenCampaigns"`,
      [limit, retryMs],
    );
    return rows;
  }

  /**
   * Looks at an erasure again later: after a tenth of the time that it has waited, at least `leastMs` and at most
   * `mostMs`. So a thousand that wait for open campaigns cost little.
   */
  async later(id: string, { leastMs, mostMs }: { leastMs: number; mostMs: number }): Promise<void> {
    await this.database.query(
      `update erasures set next_look_at = now() + least(make_interval(secs => $3 / 1000.0),
         greatest(make_interval(secs => $2 / 1000.0), (now() - requested_at) / 10)) where erasure_id = $1`,
      [id, leastMs, mostMs],
    );
  }

  /** An erasure; null = there is none with this id. */
  async find(id: string): Promise<StoredErasure | null> {
    const { rows } = await this.database.query<StoredErasure>(
      'select user_id as user, rows, in_open_campaigns as "inOpenCampaigns" from erasures where erasure_id = $1',
      [id],
    );
    return rows[0] ?? null;
  }

  /**
   * What an erasure waits for, at most ten campaigns: the user waits, holds an unpaid unit, or has a unit of a campaign
   * that is not closed, where the user could claim again once nothing knows them (decision 56).
   * @param inOpenCampaigns true = the last of these does not matter
   */
  async active(user: UserId, inOpenCampaigns: boolean): Promise<ActiveCampaign[]> {
    const ofUser = `select 1 from redemptions r where r.campaign_id = a.campaign_id and r.user_id = $1
      and (r.status in ('reserved', 'redeemed') or r.burned)`;
    const { rows } = await this.database.query<ActiveCampaign>(
      `select * from (
         select a.product_id, 'held' as state from campaigns a where exists (${ofUser} and r.status = 'reserved')
         union all
         select a.product_id, 'waiting' from campaigns a where exists (
           select 1 from waiting_tickets t where t.campaign_id = a.campaign_id and t.user_id = $1 and t.status = 'waiting')
         union all
         select a.product_id, 'open' from campaigns a where not $2 and a.status <> 'closed'
           and exists (${ofUser} and r.status <> 'reserved')
       ) found order by product_id, state limit 10`,
      [user, inOpenCampaigns],
    );
    return rows;
  }

  /** Uses another pseudonym for what follows, because the user came back under the erased id. */
  async renew(id: string): Promise<UserId> {
    const pseudonym = newPseudonym();
    await this.database.query('update erasures set pseudonym = $2 where erasure_id = $1', [id, pseudonym]);
    return pseudonym;
  }

  /** Adds changed rows to the progress. */
  async count(client: Queryable, id: string, table: string, rows: number): Promise<void> {
    await client.query(
      `update erasures set rows = rows || jsonb_build_object($2::text, coalesce((rows ->> $2)::int, 0) + $3::int)
       where erasure_id = $1`,
      [id, table, rows],
    );
  }

  /** Removes the id of the user from the erasure itself. @returns null when another run has finished it */
  async finish(client: Queryable, id: string): Promise<ErasedRows | null> {
    const { rows } = await client.query<{ rows: ErasedRows }>(
      'update erasures set user_id = null, finished_at = now() where erasure_id = $1 and finished_at is null returning rows',
      [id],
    );
    return rows[0]?.rows ?? null;
  }
}
