import type { Queryable } from '../postgres/pool.js';
import { columnOf, prepared } from '../postgres/prepared.js';
import type { NewRedemption } from './projection.js';

const INSERT = `
  insert into redemptions (redemption_id, campaign_id, user_id, order_id, qty, slot, status, burned, reacquired, line_no,
    reserved_at, pay_before, redeemed_at, released_at, refunded_at, reason, payment_ref, device_fp,
    idempotency_key, idempotency_answer, trace, code_no, terms_version, stacking, metadata, extended)
  select n.id, c.campaign_id, n.user_id, n.order_id, n.qty, n.slot, n.status, coalesce(n.burned, false),
    coalesce(n.reacquired, false), nullif(n.line_no, 0), ms(n.at), ms(coalesce(n.extended, nullif(n.due, 0))), ms(n.redeemed), ms(n.released),
    ms(n.refunded), n.reason, n.payment, nullif(n.device, ''), nullif(n.key, ''), nullif(n.answer, ''), nullif(n.trace, ''),
    n.code, n.terms, case when n.stacking is null and n.line_no > 0 then (select t.stacking from waiting_tickets t
      where t.campaign_id = c.campaign_id and t.line_no = n.line_no) else n.stacking end,
    case when n.metadata is null and n.line_no > 0 then (select t.metadata from waiting_tickets t
      where t.campaign_id = c.campaign_id and t.line_no = n.line_no) else n.metadata end,
    n.extended is not null
  from unnest($1::uuid[], $2::int[], $3::text[], $4::text[], $5::int[], $6::int[], $7::text[], $8::boolean[], $9::boolean[],
    $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[], $16::text[], $17::text[],
    $18::text[], $19::text[], $20::text[], $21::text[], $22::int[], $23::int[], $24::text[],
    $25::jsonb[], $26::bigint[])
    as n(id, no, user_id, order_id, qty, slot, status, burned, reacquired, line_no, at, due, redeemed, released, refunded,
         reason, payment, device, key, answer, trace, code, terms, stacking, metadata, extended)
  left join campaigns c on c.no = n.no
  on conflict (campaign_id, redemption_id) do nothing`;

/** The fields of a row in the order of the statement's parameters. */
const FIELDS = [
  'reservation',
  'no',
  'user',
  'order',
  'qty',
  'slot',
  'status',
  'burned',
  'reacquired',
  'lineNo',
  'atMs',
  'dueMs',
  'redeemedMs',
  'releasedMs',
  'refundedMs',
  'reason',
  'payment',
  'device',
  'key',
  'answer',
  'trace',
  'code',
  'terms',
  'stacking',
  'metadata',
  'extendedToMs',
] as const satisfies readonly (keyof NewRedemption)[];

/**
 * Inserts the rows of new reservations. Existing rows stay as they are.
 * @returns how many rows are new
 * @throws pg.DatabaseError of class 23 when a row breaks the cap or an allowance, or its campaign does not exist
 */
export async function insertRedemptions(client: Queryable, rows: readonly NewRedemption[]): Promise<number> {
  if (rows.length === 0) return 0;
  const { rowCount } = await client.query(
    prepared(
      'insert_redemptions',
      INSERT,
      FIELDS.map((field) => columnOf(rows, field)),
    ),
  );
  return rowCount ?? 0;
}
