import { ACTORS } from '../../shared/domain/actors.js';
import type { CampaignId, ProductId, UserId } from '../../shared/domain/ids.js';
import { EXPIRED } from '../../shared/postgres/audit-chain.js';
import { isPseudonym } from '../../shared/postgres/erasures.js';
import type { Database } from '../../shared/postgres/pool.js';
import type { CampaignOfUser } from '../../shared/postgres/user-rows.js';

export type ExpiredCampaign = CampaignOfUser & { cursor: string };

/** For each table of users: the order in which its rows are read, and a value before the first row. */
const WALKS = {
  redemptions: { id: 'redemption_id', type: 'uuid', first: '00000000-0000-0000-0000-000000000000' },
  waiting_tickets: { id: 'line_no', type: 'bigint', first: '-1' },
  codes: { id: 'code_no', type: 'integer', first: '-1' },
} as const;
const TABLES = Object.keys(WALKS) as (keyof typeof WALKS)[];

/** Data that are older than the settings allow. Every method throws EngineUnavailable. */
export class ExpiredData {
  constructor(readonly database: Database) {}

  /** Campaigns that closed more than `days` ago and still have users. */
  async campaigns(days: number, limit: number): Promise<ExpiredCampaign[]> {
    const { rows } = await this.database.query<{
      campaign_id: CampaignId;
      product_id: ProductId;
      personal_data_cursor: string;
    }>(
      `select campaign_id, product_id, personal_data_cursor from campaigns
       where status = 'closed' and personal_data_removed_at is null and updated_at < now() - make_interval(days => $1)
       order by updated_at limit $2`,
      [days, limit],
    );
    return rows.map((row) => ({ id: row.campaign_id, productId: row.product_id, cursor: row.personal_data_cursor }));
  }

  /** The users of the next rows. `upTo`: the position behind them; null = these are the last ones. */
  async users({ id, cursor }: ExpiredCampaign, limit: number): Promise<{ users: UserId[]; upTo: string | null }> {
    const [name, after] = cursor.split(' ');
    const table = TABLES.find((one) => one === name) ?? 'redemptions';
    const { id: column, type, first } = WALKS[table];
    const { rows } = await this.database.query<{ id: string; user_id: UserId | null }>(
      `select ${column}::text as id, user_id from ${table}
       where campaign_id = $1 and ${column} > $2::${type} order by ${table}.${column} limit $3`,
      [id, after || first, limit],
    );
    const found = new Set(rows.flatMap(({ user_id }) => (user_id === null ? [] : [user_id])));
    const users = [...found].filter((user) => !isPseudonym(user));
    if (rows.length === limit) return { users, upTo: `${table} ${rows.at(-1)?.id}` };
    return { users, upTo: TABLES[TABLES.indexOf(table) + 1] ?? null };
  }

  /** Replaces a user to whom codes of a campaign are bound. */
  async eraseFromCodes(campaign: CampaignId, user: UserId, pseudonym: UserId): Promise<void> {
    await this.database.query('update codes set user_id = $3 where campaign_id = $1 and user_id = $2', [
      campaign,
      user,
      pseudonym,
    ]);
  }

  /** @param upTo as returned by `users` */
  async advance(campaign: CampaignId, upTo: string | null): Promise<void> {
    await this.database.query(
      `update campaigns set personal_data_cursor = coalesce($2, ''),
         personal_data_removed_at = case when $2::text is null then now() end where campaign_id = $1`,
      [campaign, upTo],
    );
  }

  /**
   * Deletes entries of the audit log from the beginning of their chains. A new entry says up to which one, and with
   * which link the rest can be verified (decision 75).
   * @returns how many were deleted
   */
  async pruneAudit(days: number, limit: number): Promise<number> {
    const { rows } = await this.database.query<{ chain: string }>(
      `select c.chain from audit_chains c cross join lateral (
         select at from audit_log a where a.chain = c.chain and a.action <> $2 order by a.chain_no limit 1) first
       where first.at < now() - make_interval(days => $1) order by first.at`,
      [days, EXPIRED],
    );
    let deleted = 0;
    for (const { chain } of rows) {
      if (deleted >= limit) break;
      deleted += await this.#pruneChain(chain, days, limit - deleted);
    }
    return deleted;
  }

  #pruneChain(chain: string, days: number, limit: number): Promise<number> {
    return this.database.transaction(async (client) => {
      await client.query('select 1 from audit_chains where chain = $1 for update', [chain]);
      const { rows } = await client.query<{
        ids: string[] | null;
        up_to: string;
        link: string;
        campaign: string | null;
        own: boolean;
      }>(
        `with oldest as (
           select audit_id, chain_no, link, action, campaign_id,
             bool_and(at < now() - make_interval(days => $2)) over (order by chain_no) as expired
           from audit_log where chain = $1 order by chain_no limit $3
         )
         select array_agg(audit_id) as ids, max(chain_no) as up_to, max(campaign_id::text) as campaign,
           (array_agg(encode(link, 'hex') order by chain_no desc))[1] as link, bool_and(action = $4) as own
         from oldest where expired`,
        [chain, days, limit, EXPIRED],
      );
      const [found] = rows;
      // What says that entries have expired does not expire alone: another one would have to say so.
      if (!found?.ids || found.own) return 0;
      await client.query(`select set_config('doorbuster.removes_expired', 'yes', true)`);
      await client.query('delete from audit_log where audit_id = any($1::bigint[])', [found.ids]);
      await client.query('delete from audit_people where audit_id = any($1::bigint[])', [found.ids]);
      await client.query(
        `insert into audit_log (at, actor, action, campaign_id, after, request_id, chain) values (now(), $1, $2, $3, $4, '', $5)`,
        [
          ...[ACTORS.clock, EXPIRED, found.campaign],
          JSON.stringify({ up_to: Number(found.up_to), link: found.link }),
          chain.split(':')[0],
        ],
      );
      return found.ids.length;
    });
  }

  /** Deletes attempts to deliver events, oldest first. @returns how many were deleted */
  async pruneWebhookAttempts(days: number, limit: number): Promise<number> {
    const { rowCount } = await this.database.query(
      `delete from webhook_attempts where attempt_id in (select attempt_id from (
         select attempt_id, attempted_at from webhook_attempts order by attempt_id limit $2) oldest
         where attempted_at < now() - make_interval(days => $1))`,
      [days, limit],
    );
    return rowCount ?? 0;
  }
}
