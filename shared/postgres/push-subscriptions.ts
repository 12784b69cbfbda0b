import type { Branding } from '../domain/branding.js';
import { campaignOfNumber } from '../domain/buckets.js';
import type { ReservationId, UserId } from '../domain/ids.js';
import type { Database, Queryable } from './pool.js';

/**
 * What a notification is about. `campaign_closed` and `line_closed`: the place ended without a unit, as the whole line
 * did. `place_ended`: an operator or the service ended this place alone.
 */
export type PushMessageKind = 'promoted' | 'line_closed' | 'campaign_closed' | 'place_ended';

/** The subscription of a browser, for the place of a user. */
export type PushSubscription = {
  reservation: ReservationId;
  user: UserId;
  endpoint: string;
  /** base64url */
  p256dh: string;
  /** base64url */
  auth: string;
  /** Tag of the language of the page. */
  language: string;
};

/** A message that is to be sent now. */
export type DuePush = Pick<PushSubscription, 'endpoint' | 'p256dh' | 'auth' | 'language'> & {
  reservation: string;
  kind: PushMessageKind;
  productId: string;
  name: string;
  branding: Branding | null;
  /** null = nothing to pay */
  payBefore: Date | null;
  sendBefore: Date;
  /** This one included. */
  attempts: number;
};

type Event = { seq: string; type: string; reservation: string | null; campaign: string; pay_before: string | null };

const PROMOTED = 'dev.doorbuster.waiting.promoted.v1';
/** Events that end the places of a whole line, and the message about them. */
const CLOSING: Readonly<Record<string, PushMessageKind>> = {
  'dev.doorbuster.campaign.line_closed.v1': 'line_closed',
  'dev.doorbuster.campaign.closed.v1': 'campaign_closed',
};
const TYPES = [PROMOTED, ...Object.keys(CLOSING)];
/** How long a message about the end of one place is worth sending. */
const ENDED_PLACE_TTL = "interval '4 hours'";
const IN = (parameter: string) => `make_interval(secs => ${parameter}::float8 / 1000)`;

/** Table `push_subscriptions`. Every method throws EngineUnavailable. */
export class PushSubscriptions {
  constructor(readonly database: Database) {}

  /**
   * Stores a subscription. A repetition replaces its keys.
   * @param limit of one place; the oldest are dropped
   * @returns false when the campaign does not exist
   */
  async save(one: PushSubscription, campaignNo: number, limit: number): Promise<boolean> {
    const { rowCount } = await this.database.query(
      `with dropped as (
         delete from push_subscriptions where reservation_id = $1 and endpoint in (
           select endpoint from push_subscriptions where reservation_id = $1 and endpoint <> $2
           order by created_at desc offset $8 - 1)
       )
       insert into push_subscriptions (reservation_id, endpoint, campaign_id, user_id, p256dh, auth, language)
       select $1, $2, campaign_id, $4, $5, $6, $7 from campaigns where no = $3
       on conflict (reservation_id, endpoint) do update set
         p256dh = excluded.p256dh, auth = excluded.auth, language = excluded.language`,
      [
        one.reservation,
        one.endpoint,
        campaignOfNumber(campaignNo),
        one.user,
        one.p256dh,
        one.auth,
        one.language,
        limit,
      ],
    );
    return rowCount === 1;
  }

  /** Deletes the subscriptions of a place. */
  async removeOf(reservation: ReservationId): Promise<void> {
    await this.database.query('delete from push_subscriptions where reservation_id = $1', [reservation]);
  }

  /**
   * Reads events that no run has read yet, and marks the subscriptions that they concern: those of promoted places, and
   * those of places that ended with their line. A crash loses nothing, because both are one transaction. Only one
   * worker at a time does this.
   * @param closedTtlMs how long a message about the end of a line is worth sending
   * @returns whether there may be more events
   */
  async markConcerned(batch: number, closedTtlMs: number): Promise<boolean> {
    // A read without a lock first, because mostly nothing is new.
    const { rows } = await this.database.query<{ is_new: boolean }>(
      `select coalesce((select max(seq) from outbox), 0) > coalesce(
         (select last_seq from outbox_cursors where destination = 'push'), -1) as is_new`,
    );
    if (!rows[0]?.is_new) return false;
    return this.database.transaction(async (client) => {
      const after = await lockCursor(client);
      if (after === null) return false;
      const { rows: last } = await client.query<{ seq: string }>('select coalesce(max(seq), 0) as seq from outbox');
      const upTo = last[0]?.seq ?? after;
      const { rows: events } = await client.query<Event>(
        `select seq, type, data ->> 'reservation_id' as reservation, campaign_id as campaign, data ->> 'pay_before' as pay_before
         from outbox_events where seq > $1 and seq <= $2 and type = any($3) order by seq limit $4`,
        [after, upTo, TYPES, batch],
      );
      await markPromoted(client, events);
      for (const { type, campaign } of events) {
        const kind = CLOSING[type];
        if (kind) await markClosed(client, campaign, kind, closedTtlMs);
      }
      const hasMore = events.length === batch;
      await client.query(`update outbox_cursors set last_seq = $1, last_sent_at = now() where destination = 'push'`, [
        hasMore ? events.at(-1)?.seq : upTo,
      ]);
      return hasMore;
    });
  }

  /**
   * Takes messages that are due, and counts an attempt of each. Another run takes them again after `leaseMs`, if this
   * one does not report what became of them.
   */
  async takeDue(limit: number, leaseMs: number): Promise<DuePush[]> {
    const { rows } = await this.database.query<{
      reservation_id: string;
      endpoint: string;
      p256dh: string;
      auth: string;
      language: string;
      message: PushMessageKind;
      product_id: string;
      name: string;
      branding: Branding | null;
      pay_before: Date | null;
      send_before: Date;
      attempts: number;
    }>(
      `with due as (
         select reservation_id, endpoint from push_subscriptions where message is not null and next_attempt_at <= now()
         order by next_attempt_at limit $1 for update skip locked
       )
       update push_subscriptions s set attempts = s.attempts + 1, next_attempt_at = now() + ${IN('$2')}
       from due, campaigns c
       where s.reservation_id = due.reservation_id and s.endpoint = due.endpoint and c.campaign_id = s.campaign_id
       returning s.*, c.product_id, c.name, c.rules -> 'branding' as branding`,
      [limit, leaseMs],
    );
    return rows.map((row) => ({
      reservation: row.reservation_id,
      endpoint: row.endpoint,
      p256dh: row.p256dh,
      auth: row.auth,
      language: row.language,
      kind: row.message,
      productId: row.product_id,
      name: row.name,
      branding: row.branding,
      payBefore: row.pay_before,
      sendBefore: row.send_before,
      attempts: row.attempts,
    }));
  }

  /** Deletes a subscription whose message was sent, or can never be sent. */
  async remove({ reservation, endpoint }: Pick<DuePush, 'reservation' | 'endpoint'>): Promise<void> {
    await this.database.query('delete from push_subscriptions where reservation_id = $1 and endpoint = $2', [
      reservation,
      endpoint,
    ]);
  }

  /** Sends a message again after a delay. */
  async postpone({ reservation, endpoint }: Pick<DuePush, 'reservation' | 'endpoint'>, delayMs: number): Promise<void> {
    await this.database.query(
      `update push_subscriptions set next_attempt_at = now() + ${IN('$3')} where reservation_id = $1 and endpoint = $2`,
      [reservation, endpoint, delayMs],
    );
  }

  /**
   * Deletes subscriptions without a message whose place has ended, and all that are too old, at most `limit`.
   * @param settleMs a place may be subscribed this long before Postgres has it
   * @returns how many were deleted
   */
  async prune(settleMs: number, keepMs: number, limit: number): Promise<number> {
    const { rowCount } = await this.database.query(
      `delete from push_subscriptions where ctid in (
         select s.ctid from push_subscriptions s
         where s.created_at < now() - ${IN('$2')} or (
           s.message is null and s.created_at < now() - ${IN('$1')} and not exists (
             select from waiting_tickets t where t.campaign_id = s.campaign_id and t.user_id = s.user_id
               and t.status = 'waiting' and t.reservation_id = s.reservation_id))
         limit $3)`,
      [settleMs, keepMs, limit],
    );
    return rowCount ?? 0;
  }
}

/** @returns the last event that was read; null = another worker reads events. A new cursor begins with the next one */
async function lockCursor(client: Queryable): Promise<string | null> {
  await client.query(
    `insert into outbox_cursors (destination, last_seq)
     values ('push', coalesce((select max(seq) from outbox), 0)) on conflict do nothing`,
  );
  const { rows } = await client.query<{ last_seq: string }>(
    `select last_seq from outbox_cursors where destination = 'push' for update skip locked`,
  );
  return rows[0]?.last_seq ?? null;
}

async function markPromoted(client: Queryable, events: readonly Event[]): Promise<void> {
  const promoted = events.filter(({ type }) => type === PROMOTED);
  if (promoted.length === 0) return;
  await client.query(
    `update push_subscriptions s set message = 'promoted', pay_before = n.pay_before, attempts = 0, next_attempt_at = now(),
       send_before = coalesce(n.pay_before, now() + interval '1 day')
     from unnest($1::uuid[], $2::timestamptz[]) as n(reservation_id, pay_before)
     where s.reservation_id = n.reservation_id`,
    [promoted.map(({ reservation }) => reservation), promoted.map(({ pay_before }) => pay_before)],
  );
}

/** The script ended the tickets of the line together with this event. Users who had left before get no message. */
async function markClosed(client: Queryable, campaign: string, kind: PushMessageKind, ttlMs: number): Promise<void> {
  await client.query(
    `update push_subscriptions s set message = $2, attempts = 0, next_attempt_at = now(), send_before = now() + ${IN('$3')}
     where s.campaign_id = $1 and s.message is null and exists (
       select from waiting_tickets t where t.campaign_id = s.campaign_id and t.user_id = s.user_id
         and t.status = 'closed' and t.reservation_id = s.reservation_id)`,
    [campaign, kind, ttlMs],
  );
}

/**
 * Marks the subscriptions of places that the service or an operator ended alone, in the transaction that writes so.
 * Rows that a sender has locked have another message already.
 */
export async function markEndedPlaces(
  client: Queryable,
  places: readonly { no: number; lineNo: number }[],
): Promise<void> {
  await client.query(
    `with ended as (
       select s.reservation_id, s.endpoint from unnest($1::int[], $2::bigint[]) as n(no, line_no)
       join campaigns c on c.no = n.no
       join waiting_tickets t on t.campaign_id = c.campaign_id and t.line_no = n.line_no
       join push_subscriptions s on s.reservation_id = t.reservation_id
       where s.message is null for update of s skip locked
     )
     update push_subscriptions s set message = 'place_ended', attempts = 0, next_attempt_at = now(),
       send_before = now() + ${ENDED_PLACE_TTL}
     from ended e where s.reservation_id = e.reservation_id and s.endpoint = e.endpoint`,
    [places.map(({ no }) => no), places.map(({ lineNo }) => lineNo)],
  );
}
