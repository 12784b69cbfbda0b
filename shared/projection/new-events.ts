import { createHash } from 'node:crypto';
import type { EventType, OwnDataOf } from '../contracts/events.js';
import type { CampaignId, UserId } from '../domain/ids.js';
import { Batch } from '../postgres/batch.js';
import type { Queryable } from '../postgres/pool.js';
import { prepared } from '../postgres/prepared.js';
import { type EventSpan, type SpanRow, spanOf, spanSql } from './event-span.js';
import type { NewEvent } from './events-of-entries.js';

const VOIDED: EventType = 'dev.doorbuster.redemption.voided.v1';
const REDEEMED: EventType = 'dev.doorbuster.redemption.redeemed.v1';
const EXTENDED: EventType = 'dev.doorbuster.redemption.extended.v1';
const DUPLICATED: EventType = 'dev.doorbuster.payment.duplicated.v1';
const MISMATCHED: EventType = 'dev.doorbuster.payment.mismatched.v1';
const PARTIAL: EventType = 'dev.doorbuster.payment.partial.v1';
const REFUNDED_BEFORE: EventType = 'dev.doorbuster.payment.refunded_before.v1';
/** Events that store the quantity of their time. */
const WITH_QTY = [EXTENDED, DUPLICATED, MISMATCHED, PARTIAL, REFUNDED_BEFORE].map((type) => `'${type}'`).join(', ');

const EVENTS = new Batch({
  ...{ type: 'text', no: 'int', reservation: 'uuid', once: 'text', atMs: 'bigint', trace: 'text', data: 'jsonb' },
  ...{ initial: 'boolean', isNew: 'boolean' },
});
const INITIAL = new Batch({ type: 'text', no: 'int', atMs: 'bigint', reservation: 'uuid' });

// `offset 0` makes the planner look up each row in the partition of its campaign, instead of reading all partitions.
const INSERT = `
  with made as (
    insert into outbox (event_id, type, subject, campaign_id, product_id, occurred_at, trace, data, reservation_id, extra)
    select case when n.isNew then null else event_id_of(n.once, n.type) end, n.type,
      case when n.reservation is null then c.product_id end, c.campaign_id,
      case when n.reservation is null then c.product_id end, coalesce(ms(n.atMs), now()), nullif(n.trace, ''),
      case when n.reservation is null
        then jsonb_build_object('campaign_id', c.campaign_id, 'product_id', c.product_id) || n.data end,
      n.reservation,
      case when n.reservation is not null
        then case when n.type in (${WITH_QTY}) then jsonb_build_object('qty', r.qty) else '{}' end
          || case when n.initial then '{}'::jsonb else n.data end
          || case when t.version is null then jsonb_build_object('discount', c.discount) else '{}' end end
    from ${EVENTS.numbered}
    join campaigns c on c.no = n.no
    left join lateral (select redemption_id, campaign_id, terms_version, status, pay_before, reserved_at, qty
      from redemptions where campaign_id = c.campaign_id and redemption_id = n.reservation offset 0) r on true
    left join campaign_terms t on t.campaign_id = r.campaign_id and t.version = r.terms_version
    where n.reservation is null or n.isNew or (r.redemption_id is not null and case
      when r.status = 'voided' and exists (select 1 from outbox o where o.event_id = event_id_of(n.once, '${VOIDED}'))
        then false
      when n.initial or (n.type = '${REDEEMED}' and r.pay_before is null)
        then not exists (select 1 from outbox o where o.occurred_at = r.reserved_at and o.event_id is null
          and o.reservation_id = n.reservation and o.type = n.type)
      else true end)
    order by n.position
    on conflict (event_id) do nothing
    returning seq
  ) ${spanSql('made')}`;

const INSERT_INITIAL = `
  with made as (
    insert into outbox (type, campaign_id, occurred_at, reservation_id)
    select n.type, c.campaign_id, ms(n.atMs), n.reservation
    from ${INITIAL.numbered}
    join campaigns c on c.no = n.no
    order by n.position
    returning seq
  ) ${spanSql('made')}`;

/**
 * Writes events in the transaction that caused them, after its rows. The caller holds the lock on `journal_cursor`, so
 * a transaction commits before the next one gets its `seq` numbers. So the order of `seq` is the order of commits, and
 * a reader never finds a `seq` below one that it has read.
 *
 * The outbox stores only those fields of an event about a reservation that its rows lack (view `outbox_events`). Event
 * ids are unique, so an event is published once, and none follows `voided`. An initial event of a new row needs no id,
 * because its row is unique.
 *
 * Units may be given back before or after an extension or an event of a payment. So these events store the quantity of
 * their time: that of the row, unless the event has one.
 * @param rowsAreNew whether this transaction has inserted the row of each reservation with an initial event
 * @returns null when nothing was written
 */
export async function insertEvents(
  client: Queryable,
  events: readonly NewEvent[],
  rowsAreNew = false,
): Promise<EventSpan | null> {
  if (events.length === 0) return null;
  const rows = events.map((event) => ({
    ...event,
    data: JSON.stringify(event.data),
    initial: event.initial === true,
    isNew: rowsAreNew && event.initial === true,
  }));
  return spanOf(await client.query<SpanRow>(prepared('insert_events', INSERT, EVENTS.of(rows))));
}

/**
 * Does the same for initial events only, which is faster. All reservations must be new, and Postgres must have the
 * terms under which they were made.
 */
export async function insertInitialEvents(client: Queryable, events: readonly NewEvent[]): Promise<EventSpan | null> {
  if (events.length === 0) return null;
  return spanOf(await client.query<SpanRow>(prepared('insert_initial_events', INSERT_INITIAL, INITIAL.of(events))));
}

type UnknownPayment = OwnDataOf<'dev.doorbuster.payment.unknown.v1'>;

/**
 * Writes the event of a payment whose reservation does not exist, once for each payment. It belongs to no campaign.
 * @param eventId identifies a payment without a reference
 */
export async function insertUnknownPayment(client: Queryable, data: UnknownPayment, eventId: string): Promise<void> {
  const type: EventType = 'dev.doorbuster.payment.unknown.v1';
  const subject = data.payment_ref ?? eventId;
  const once = createHash('sha256').update(`${data.provider} ${subject}`).digest('hex');
  await client.query(
    `insert into outbox (event_id, type, subject, occurred_at, data) values (event_id_of($1, $2), $2, $3, now(), $4)
     on conflict (event_id) do nothing`,
    [once, type, subject, JSON.stringify(data)],
  );
}

/**
 * Writes the event of an erased user for reservations of one campaign, in the transaction that gives them to the
 * pseudonym. That transaction holds the lock of the journal's writers, as the order of events needs.
 */
export async function insertErasedUser(
  client: Queryable,
  campaign: CampaignId,
  pseudonym: UserId,
  reservations: readonly string[],
): Promise<void> {
  const type: EventType = 'dev.doorbuster.user.erased.v1';
  await client.query(
    `insert into outbox (event_id, type, subject, campaign_id, product_id, occurred_at, data)
     select gen_random_uuid(), $1, product_id, campaign_id, product_id, now(), jsonb_build_object('campaign_id', campaign_id,
       'product_id', product_id, 'pseudonym', $3::text, 'reservation_ids', to_jsonb($4::uuid[]))
     from campaigns where campaign_id = $2`,
    [type, campaign, pseudonym, reservations],
  );
}
