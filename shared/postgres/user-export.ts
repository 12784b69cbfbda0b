import type { UserId } from '../domain/ids.js';
import { eventsOf } from './events-of-reservation.js';
import type { Database } from './pool.js';

const PAGE = 200;

const OF_REDEMPTIONS = `(
  select r.* from campaigns a cross join lateral (
    select * from redemptions where campaign_id = a.campaign_id and user_id = $1 and (status in ('reserved', 'redeemed') or burned)
    union all
    select * from redemptions where campaign_id = a.campaign_id and user_id = $1 and status not in ('reserved', 'redeemed')
      and not burned) r)`;

/** Name in the export → statement for its rows of user $1. `key` is unique and the order of the pages. */
const SECTIONS: Record<string, string> = {
  redemptions: `select r.redemption_id::text as key, c.product_id, k.code, r.* from ${OF_REDEMPTIONS} r
      join campaigns c using (campaign_id) left join codes k on k.campaign_id = r.campaign_id and k.code_no = r.code_no`,
  waiting_tickets: `select t.reservation_id::text as key, a.product_id, t.* from campaigns a cross join lateral (
        select * from waiting_tickets where campaign_id = a.campaign_id and user_id = $1 and status = 'waiting'
        union all select * from waiting_tickets where campaign_id = a.campaign_id and user_id = $1 and status <> 'waiting') t`,
  idempotency_records: `select m.idempotency_key || ' ' || m.campaign_id as key, a.product_id, m.* from campaigns a join remembered_answers m
      on m.campaign_id = a.campaign_id and split_part(m.answer, '|', 3) = $1 and m.answer not like 'restock|%'`,
  // Only the host: the rest of the URL and the keys are capabilities to send to the browser.
  push_subscriptions: `select s.reservation_id || ' ' || s.endpoint as key, c.product_id, s.reservation_id, s.user_id,
      substring(s.endpoint from '^[a-z]+://(?:[^/?#@]*@)?([^/?#@]*)') as host, s.language, s.created_at, s.message
      from push_subscriptions s join campaigns c using (campaign_id) where s.user_id = $1`,
  attempts: `select attempt_id::text as key, t.* from redemption_attempts t where user_id = $1`,
  codes: 'select code as key, k.* from codes k where user_id = $1',
  bans: `select ban_id::text as key, b.* from bans b where kind = 'user' and subject = $1`,
  actions: `select lpad(audit_id::text, 19, '0') as key, audit_id, at, actor, action, campaign_id, before, after, request_id
      from (
        select * from audit_log where after ? 'user_id' and after ->> 'user_id' = $1
        union select * from audit_log
          where coalesce(after, before) ->> 'kind' = 'user' and coalesce(after, before) ->> 'subject' = $1) a`,
  changes: `select h.reservation_id || ' ' || lpad(h.batch::text, 12, '0') || ' ' || lpad(h.position::text, 9, '0') as key,
      h.reservation_id, h.at, h.kind, h.actor, h.reason, h.detail from ${OF_REDEMPTIONS} r
      join redemption_history h on h.campaign_id = r.campaign_id and h.reservation_id = r.redemption_id`,
  payment_events: `select e.provider || ' ' || e.event_id || ' ' || coalesce(e.reservation_id::text, '') as key, e.* from (
      select e.* from ${OF_REDEMPTIONS} r join payment_events e on e.reservation_id = r.redemption_id
      union all select * from payment_events where outcome = 'unknown' and named ->> 'user_id' = $1) e`,
  further_payments: `select d.reservation_id || ' ' || d.payment_ref as key, d.* from ${OF_REDEMPTIONS} r
      join duplicate_payments d on d.reservation_id = r.redemption_id`,
};

/** Everything that Postgres has about one user. */
export class UserExport {
  constructor(readonly database: Database) {}

  get sections(): readonly string[] {
    return [...Object.keys(SECTIONS), 'events'];
  }

  /** Yields the rows of a section as JSON texts, in batches. @throws EngineUnavailable */
  async *rows(section: string, user: UserId): AsyncGenerator<string[]> {
    if (section === 'events') return yield* this.#events(user);
    const sql = SECTIONS[section];
    if (!sql) throw new RangeError(`an export has no ${section}`);
    let after = '';
    for (;;) {
      const { rows } = await this.database.query<{ key: string; row: string }>(
        `select key, (to_jsonb(s) - 'key')::text as row from (${sql}) s
         where key collate "C" > $2 order by key collate "C" limit $3`,
        [user, after, PAGE],
      );
      yield rows.map(({ row }) => row);
      if (rows.length < PAGE) return;
      after = String(rows.at(-1)?.key);
    }
  }

  /** The events of the user's reservations that are still in the outbox. */
  async *#events(user: UserId): AsyncGenerator<string[]> {
    let after = '';
    for (;;) {
      const { rows } = await this.database.query<{ id: string; events: string[] }>(
        `select r.redemption_id::text as id, array(
           select to_jsonb(e)::text from (${eventsOf('r')}) own join outbox_events e on e.seq = own.seq
           order by own.seq) as events
         from ${OF_REDEMPTIONS} r where r.redemption_id::text collate "C" > $2
         order by r.redemption_id::text collate "C" limit $3`,
        [user, after, PAGE],
      );
      yield rows.flatMap(({ events }) => events);
      if (rows.length < PAGE) return;
      after = String(rows.at(-1)?.id);
    }
  }
}
