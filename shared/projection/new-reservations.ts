import type { EntryOf, JournalEntry } from '../contracts/journal.js';
import type { Queryable } from '../postgres/pool.js';
import { columnOf, prepared } from '../postgres/prepared.js';
import { type EventSpan, type SpanRow, spanOf, spanSql } from './event-span.js';

/** A new reservation that was not promoted from the line. */
export type NewReservation = EntryOf<'reserved'>;

/**
 * Writes rows, their events and the cursor of the journal. Events are numbered in the order of the rows, which is the
 * order of the entries.
 */
const INSERT = `
  with rows as (
    insert into redemptions (redemption_id, campaign_id, user_id, order_id, qty, slot, status, reserved_at, pay_before,
      redeemed_at, device_fp, idempotency_key, idempotency_answer, trace, code_no, terms_version, stacking)
    select n.id, c.campaign_id, n.user_id, n.order_id, n.qty, n.slot, n.status, ms(n.at), ms(nullif(n.due, 0)),
      case when n.status = 'redeemed' then ms(n.at) end, n.device, n.key, n.answer, n.trace, n.code, n.terms, n.stacking
    from unnest($1::uuid[], $2::int[], $3::text[], $4::text[], $5::int[], $6::int[], $7::text[], $8::bigint[], $9::bigint[],
      $10::text[], $11::text[], $12::text[], $13::text[], $14::int[], $15::int[], $16::text[]) with ordinality
      as n(id, no, user_id, order_id, qty, slot, status, at, due, device, key, answer, trace, code, terms, stacking, position)
    join unnest($17::int[], $18::uuid[]) as c(no, campaign_id) on c.no = n.no
    order by n.position
    on conflict (campaign_id, redemption_id) do nothing
    returning redemption_id, campaign_id, status, reserved_at
  ), made as (
    insert into outbox (type, campaign_id, occurred_at, reservation_id)
    select 'dev.doorbuster.redemption.' || status || '.v1', campaign_id, reserved_at, redemption_id from rows
    returning seq
  ), moved as (
    update journal_cursor set last_id = $19, updated_at = now() where shard = $20
  ) ${spanSql('made')}`;

/** The fields of an entry in the order of the statement's parameters. */
const FIELDS = [
  'reservation',
  'no',
  'user',
  'order',
  'qty',
  'slot',
  'state',
  'atMs',
  'dueMs',
  'device',
  'key',
  'answer',
  'trace',
  'code',
  'terms',
  'stacking',
] as const satisfies readonly (keyof NewReservation)[];

/**
 * Whether a batch only makes reservations, each once, none from the line and none with metadata. Most batches of a sale
 * do.
 */
export function areNewReservations(entries: readonly JournalEntry[]): entries is readonly NewReservation[] {
  const seen = new Set<string>();
  for (const entry of entries) {
    if (entry.kind !== 'reserved' || entry.lineNo > 0 || entry.metadata) return false;
    seen.add(entry.reservation);
  }
  return seen.size === entries.length;
}

/**
 * Writes new reservations with their events and moves the cursor, with one statement. If a reservation exists already,
 * neither its row nor its event is written.
 * @param campaigns number → id of each campaign in the entries, so that the statement does not look them up
 * @returns the position of the events; null = every row existed
 * @throws pg.DatabaseError of class 23 when a row breaks the cap or an allowance, or its campaign does not exist
 */
export async function insertReservations(
  client: Queryable,
  entries: readonly NewReservation[],
  campaigns: ReadonlyMap<number, string>,
  { upTo, shard }: { upTo: string; shard: number },
): Promise<EventSpan | null> {
  const columns: unknown[] = FIELDS.map((field) => columnOf(entries, field));
  const values = [...columns, [...campaigns.keys()], [...campaigns.values()], upTo, shard];
  return spanOf(await client.query<SpanRow>(prepared('insert_reservations', INSERT, values)));
}
