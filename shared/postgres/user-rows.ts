import type { CampaignId, ProductId, UserId } from '../domain/ids.js';
import { INDEXED_BY_RESERVATION } from './events-of-reservation.js';
import type { Database, Queryable } from './pool.js';

/** Rows of a user that one statement changes at most. */
export const ERASED_AT_ONCE = 200;

export type CampaignOfUser = { id: CampaignId; productId: ProductId };
/** What keeps a user from being erased. */
export type ActiveCampaign = { product_id: string; state: 'waiting' | 'held' | 'open' };
/** Tables with a row for each claim of a user. */
export const CLAIM_TABLES = ['redemptions', 'waiting_tickets', 'remembered_answers'] as const;
export type ClaimTable = (typeof CLAIM_TABLES)[number];
/** A row, with the idempotency key and the order that Redis may still have a record of; null = none. */
export type ClaimRow = { id: string; key: string | null; order: string | null };

const ENDED = `status not in ('reserved', 'redeemed') and not burned`;
const ACTIVE = `(status in ('reserved', 'redeemed') or burned)`;
/** SQL that removes what a reservation says about its user; the reason of a voided one is kept, as it says why. */
export const WITHOUT_PERSON = `device_fp = null, metadata = null, idempotency_key = null, idempotency_answer = null,
  reason = case when status = 'voided' then reason end`;
/** The same of a place in line. */
export const PLACE_WITHOUT_PERSON =
  'device_fp = null, metadata = null, idempotency_key = null, idempotency_answer = null';
/** For each table: its rows of a user in a campaign, by the indexes that have the user. */
const OF_CLAIMS: Record<ClaimTable, { parts: string[]; columns: string; id: string; type: string; change: string }> = {
  redemptions: {
    parts: [`user_id = $2 and ${ACTIVE}`, `user_id = $2 and ${ENDED}`],
    columns: `redemption_id::text as id, idempotency_key as key, case when stacking is not null then order_id end as order`,
    id: 'redemption_id',
    type: 'uuid',
    change: `update redemptions set user_id = $4, ${WITHOUT_PERSON}`,
  },
  waiting_tickets: {
    parts: [`user_id = $2 and status = 'waiting'`, `user_id = $2 and status <> 'waiting'`],
    columns: `line_no::text as id, idempotency_key as key, case when stacking is not null then order_id end as order`,
    id: 'line_no',
    type: 'bigint',
    change: `update waiting_tickets set user_id = $4, ${PLACE_WITHOUT_PERSON}`,
  },
  remembered_answers: {
    parts: [`split_part(answer, '|', 3) = $2 and answer not like 'restock|%'`],
    columns: `idempotency_key as id, substr(idempotency_key, strpos(idempotency_key, '|') + 1) as key, null::text as order`,
    id: 'idempotency_key',
    type: 'text',
    change: 'delete from remembered_answers',
  },
};

/** Events that were not pruned yet repeat the reasons of releases and refunds. That of a voided row says why. */
const WITHOUT_REASON = `update outbox o set extra = o.extra || '{"reason": null}'
  where o.reservation_id = any($1::uuid[]) and ${INDEXED_BY_RESERVATION} and o.extra ? 'reason'
    and o.type <> 'dev.doorbuster.redemption.voided.v1'`;

/** The chain of the history stays whole: its digests of reasons stay, but say nothing without their salts. */
const HISTORY_WITHOUT_REASON = `update redemption_history set reason = null, reason_salt = null
  where campaign_id = $1 and reservation_id = any($2::uuid[]) and reason_salt is not null`;

/** Sets a member of a JSON object to the pseudonym where it is the user, and removes free text. */
const redacted = (column: string, member: string) =>
  `case when ${column} ->> '${member}' = $1
     then (${column} - 'reason') || jsonb_build_object('${member}', $2::text) else ${column} end`;
/** Without the salt, the digest of an entry says nothing about the user any more. */
const auditOf = (where: string) => `with changed as (
    update audit_log set before = ${redacted(redacted('before', 'user_id'), 'subject')},
      after = ${redacted(redacted('after', 'user_id'), 'subject')}
    where audit_id in (select audit_id from audit_log where ${where} limit $3) returning audit_id
  ), salts as (delete from audit_people p using changed c where p.audit_id = c.audit_id)
  select audit_id from changed`;

/** Table → statement that changes at most $3 rows of user $1 to pseudonym $2. */
const ELSEWHERE: Record<string, readonly string[]> = {
  redemption_attempts: [
    `update redemption_attempts set user_id = $2, device_fp = null, network = null where attempt_id in (
       select attempt_id from redemption_attempts where user_id = $1 order by attempt_id limit $3)`,
  ],
  // Before the codes, because lines of an upload become codes.
  code_staging: [
    `update code_staging set user_id = $2 where (job_id, line) in (
       select job_id, line from code_staging where user_id = $1 limit $3)`,
  ],
  codes: [`update codes set user_id = $2 where code in (select code from codes where user_id = $1 limit $3)`],
  bans: [
    `update bans set subject = $2, reason = '', changed_at = now()
     where ban_id in (select ban_id from bans where kind = 'user' and subject = $1 limit $3)`,
  ],
  audit_log: [
    auditOf(`after ? 'user_id' and after ->> 'user_id' = $1`),
    auditOf(`coalesce(after, before) ->> 'kind' = 'user' and coalesce(after, before) ->> 'subject' = $1`),
  ],
  outbox: [
    `update outbox set data = data || jsonb_build_object('user_id', $2::text)
     where data is not null and seq in (select seq from outbox where data is not null and data ->> 'user_id' = $1 limit $3)`,
    `update outbox set data = data || jsonb_build_object('rejected_user_id', $2::text)
     where data is not null
       and seq in (select seq from outbox where data is not null and data ->> 'rejected_user_id' = $1 limit $3)`,
  ],
  journal_rejects: [
    `update journal_rejects set fields = (fields - '{key,answer,device,metadata,reason,note,record}'::text[]) || jsonb_build_object('user', $2::text)
     where journal_id in (select journal_id from journal_rejects where fields ->> 'user' = $1 limit $3)`,
  ],
  payment_events: [
    `update payment_events set named = named || jsonb_build_object('user_id', $2::text)
     where outcome = 'unknown' and (provider, event_id) in (
       select provider, event_id from payment_events where outcome = 'unknown' and named ->> 'user_id' = $1 limit $3)`,
  ],
  push_subscriptions: [
    `delete from push_subscriptions where $2::text is not null and (reservation_id, endpoint) in (
       select reservation_id, endpoint from push_subscriptions where user_id = $1 limit $3)`,
  ],
  recovered_entries: [
    `delete from recovered_entries where $2::text is not null and journal_id in (
       select journal_id from recovered_entries where applied_at is not null
         and (fields ->> 'user' = $1 or split_part(fields ->> 'answer', '|', 3) = $1) limit $3)`,
  ],
};
export const OTHER_TABLES: readonly string[] = Object.keys(ELSEWHERE);

/** Reservations of a user that only Redis has, because Postgres rejected their entries. */
const REJECTED = `select (fields ->> 'reservation')::uuid as redemption_id from journal_rejects
  where fields ->> 'user' = $2 and fields ->> 'reservation' ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'`;

/** The rows of one user in all tables, for their erasure. Every method throws EngineUnavailable. */
export class UserRows {
  constructor(
    readonly database: Database,
    /** Locks out the writers of the journal until the transaction ends, because they write the same rows. */
    readonly lock: (client: Queryable) => Promise<void>,
  ) {}

  /**
   * The campaigns with rows of one of these users.
   * @param withRejected also those whose only row of a user is an entry that Postgres rejected
   */
  async campaigns(users: readonly UserId[], withRejected = false): Promise<CampaignOfUser[]> {
    const any = CLAIM_TABLES.flatMap((table) =>
      OF_CLAIMS[table].parts.map(
        (part) =>
          `exists (select 1 from ${table} where ${table}.campaign_id = a.campaign_id and ${part.replaceAll('= $2', '= any($1)')})`,
      ),
    );
    const { rows } = await this.database.query<{ campaign_id: CampaignId; product_id: ProductId }>(
      `select a.campaign_id, a.product_id from campaigns a where ${any.join(' or ')}
         or $2 and a.no in (select ('x' || right(r.redemption_id::text, 8))::bit(32)::bigint
             - (redemption_bucket(r.redemption_id)::bigint << 23)
           from (${REJECTED.replace('= $2', '= any($1)')}) r) order by a.no`,
      [users, withRejected],
    );
    return rows.map(({ campaign_id, product_id }) => ({ id: campaign_id, productId: product_id }));
  }

  /** The reservations of the user in a campaign, newest first, also those that Postgres rejected. */
  async reservations(campaign: CampaignId, user: UserId, limit: number): Promise<string[]> {
    const part = (state: string) =>
      `select redemption_id from redemptions where campaign_id = $1 and user_id = $2 and ${state}`;
    const { rows } = await this.database.query<{ id: string }>(
      `select redemption_id as id from (${part(ACTIVE)} union all ${part(ENDED)} union all ${REJECTED}) r order by 1 desc limit $3`,
      [campaign, user, limit],
    );
    return rows.map(({ id }) => id);
  }

  /** The idempotency keys of entries of the user that Postgres rejected. */
  async rejectedKeys(user: UserId): Promise<string[]> {
    const { rows } = await this.database.query<{ key: string }>(
      `select fields ->> 'key' as key from journal_rejects where fields ->> 'user' = $1 and fields ->> 'key' <> '' limit $2`,
      [user, ERASED_AT_ONCE],
    );
    return rows.map(({ key }) => key);
  }

  /** The next rows of the user in a table of a campaign. */
  async claims(table: ClaimTable, campaign: CampaignId, user: UserId): Promise<ClaimRow[]> {
    const { parts, columns } = OF_CLAIMS[table];
    const selects = parts.map(
      (part) => `(select ${columns} from ${table} where campaign_id = $1 and ${part} limit ${ERASED_AT_ONCE})`,
    );
    const { rows } = await this.database.query<ClaimRow>(
      `select * from (${selects.join(' union all ')}) found limit ${ERASED_AT_ONCE}`,
      [campaign, user],
    );
    return rows;
  }

  /**
   * Replaces the user in these rows, or deletes them.
   * @returns the ids of the rows that were the user's until now
   * @throws pg.DatabaseError 23505 when the pseudonym has such a row already
   */
  async eraseClaims(
    client: Queryable,
    table: ClaimTable,
    campaign: CampaignId,
    users: { user: UserId; pseudonym: UserId },
    ids: readonly string[],
  ): Promise<string[]> {
    await this.lock(client);
    const { change, id, type, parts } = OF_CLAIMS[table];
    if (table === 'redemptions') {
      await client.query(WITHOUT_REASON, [ids]);
      await client.query(`select set_config('doorbuster.erases_user', 'yes', true)`);
      await client.query(HISTORY_WITHOUT_REASON, [campaign, ids]);
    }
    const values = [campaign, users.user, ids, ...(change.includes('$4') ? [users.pseudonym] : [])];
    const { rows } = await client.query<{ id: string }>(
      `${change} where campaign_id = $1 and ${id} = any($3::${type}[]) and (${parts.join(' or ')}) returning ${id}::text as id`,
      values,
    );
    return rows.map((row) => row.id);
  }

  /** Replaces the user in the next rows of another table. @returns how many rows; 0 = none is left */
  async eraseElsewhere(client: Queryable, table: string, user: UserId, pseudonym: UserId): Promise<number> {
    if (table === 'audit_log') await client.query(`select set_config('doorbuster.erases_user', 'yes', true)`);
    let changed = 0;
    for (const statement of ELSEWHERE[table] ?? []) {
      const { rowCount } = await client.query(statement, [user, pseudonym, ERASED_AT_ONCE]);
      changed += rowCount ?? 0;
    }
    return changed;
  }

  /** The bans of the user that are in force. */
  async bansInForce(user: UserId): Promise<string[]> {
    const { rows } = await this.database.query<{ ban_id: string }>(
      `select ban_id from bans where kind = 'user' and subject = $1 and lifted_at is null limit 1000`,
      [user],
    );
    return rows.map(({ ban_id }) => ban_id);
  }

  /** The number of the last event; 0 = none. */
  async lastEvent(): Promise<number> {
    const { rows } = await this.database.query<{ seq: string }>('select coalesce(max(seq), 0) as seq from outbox');
    return Number(rows[0]?.seq ?? 0);
  }
}
