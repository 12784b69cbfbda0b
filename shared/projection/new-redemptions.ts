import type { EntryOf, JournalEntry } from '../contracts/journal.js';
import { Batch } from '../postgres/batch.js';
import type { Queryable } from '../postgres/pool.js';
import { prepared } from '../postgres/prepared.js';
import { type EventSpan, type SpanRow, spanOf, spanSql } from './event-span.js';
import { type NewRedemption, projectEntries } from './projection.js';

/** What a reservation has when it is made without a line, and what it may have as well at the end of the batch. */
const MADE = {
  ...{ reservation: 'uuid', no: 'int', user: 'text', order: 'text', qty: 'int', slot: 'int', status: 'text' },
  ...{ atMs: 'bigint', dueMs: 'bigint', redeemedMs: 'bigint', device: 'text', key: 'text', answer: 'text' },
  ...{ trace: 'text', code: 'int', terms: 'int', stacking: 'text' },
} as const;
const MORE = {
  ...{ lineNo: 'bigint', metadata: 'jsonb', burned: 'boolean', reacquired: 'boolean', releasedMs: 'bigint' },
  ...{ refundedMs: 'bigint', reason: 'text', payment: 'text', extendedToMs: 'bigint' },
} as const;
const ROWS = new Batch({ ...MADE, ...MORE });
/** Each column costs every row some time. */
const MADE_ROWS = new Batch(MADE);
const NOTHING_MORE = Object.entries(MORE).map(([field, type]) => `null::${type} as ${field}`);

// `offset 0` makes the planner look up the place of each user who was in line, and nothing else.
const insertFrom = (rows: string) => `
  insert into redemptions (redemption_id, campaign_id, user_id, order_id, qty, slot, status, burned, reacquired, line_no,
    reserved_at, pay_before, redeemed_at, released_at, refunded_at, reason, payment_ref, device_fp,
    idempotency_key, idempotency_answer, trace, code_no, terms_version, stacking, metadata, extended)
  select n.reservation, c.campaign_id, n."user", n."order", n.qty, n.slot, n.status, coalesce(n.burned, false),
    coalesce(n.reacquired, false), nullif(n.lineNo, 0), ms(n.atMs), ms(coalesce(n.extendedToMs, nullif(n.dueMs, 0))),
    ms(n.redeemedMs), ms(n.releasedMs), ms(n.refundedMs), n.reason, n.payment, n.device, n.key, n.answer, n.trace, n.code,
    n.terms, coalesce(n.stacking, t.stacking), coalesce(n.metadata, t.metadata), n.extendedToMs is not null
  from ${rows}
  left join campaigns c on c.no = n.no
  left join lateral (select stacking, metadata from waiting_tickets
    where n.lineNo > 0 and campaign_id = c.campaign_id and line_no = n.lineNo offset 0) t on true
  order by n.position
  on conflict (campaign_id, redemption_id) do nothing`;
const INSERT = insertFrom(ROWS.numbered);

/**
 * Inserts the rows of new reservations. Existing rows stay as they are.
 * @returns how many rows are new
 * @throws pg.DatabaseError of class 23 when a row breaks the cap or an allowance, or its campaign does not exist
 */
export async function insertRedemptions(client: Queryable, rows: readonly NewRedemption[]): Promise<number> {
  if (rows.length === 0) return 0;
  const { rowCount } = await client.query(prepared('insert_redemptions', INSERT, ROWS.ofSparse(rows)));
  return rowCount ?? 0;
}

/** A new reservation that was not promoted from the line. */
export type NewReservation = EntryOf<'reserved'>;

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
 * Writes rows, their events and the cursor of the journal. Events are numbered in the order of the rows, which is the
 * order of the entries.
 */
const INSERT_WITH_EVENTS = `
  with rows as (${insertFrom(`(select n.*, ${NOTHING_MORE} from ${MADE_ROWS.numbered}) n`)}
    returning redemption_id, campaign_id, status, reserved_at
  ), made as (
    insert into outbox (type, campaign_id, occurred_at, reservation_id)
    select 'dev.doorbuster.redemption.' || status || '.v1', campaign_id, reserved_at, redemption_id from rows
    returning seq
  ), moved as (
    update journal_cursor set last_id = $${MADE_ROWS.count + 1}, updated_at = now() where shard = $${MADE_ROWS.count + 2}
  ) ${spanSql('made')}`;

/**
 * Writes new reservations with their events and moves the cursor, with one statement. If a reservation exists already,
 * neither its row nor its event is written.
 * @returns the position of the events; null = every row existed
 * @throws pg.DatabaseError of class 23 when a row breaks the cap or an allowance, or its campaign does not exist
 */
export async function insertReservations(
  client: Queryable,
  entries: readonly NewReservation[],
  { upTo, shard }: { upTo: string; shard: number },
): Promise<EventSpan | null> {
  const values = [...MADE_ROWS.ofSparse(projectEntries(entries).newRedemptions), upTo, shard];
  return spanOf(await client.query<SpanRow>(prepared('insert_reservations', INSERT_WITH_EVENTS, values)));
}
