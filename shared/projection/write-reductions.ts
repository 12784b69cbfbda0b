import type { Queryable } from '../postgres/pool.js';
import type { RedemptionChange } from './projection.js';

/**
 * Writes the units that reservations have kept, and how many they gave back. A voided reservation has burned none.
 * @param of `made`: the batch made these rows, possibly as voided; `changed`: it changes them, and one that is voided
 *   already stays as it is
 */
export async function writeReductions(
  client: Queryable,
  rows: readonly RedemptionChange[],
  of: 'made' | 'changed',
): Promise<void> {
  const reduced = rows.flatMap(({ no, reservation, kept }) => (kept ? [{ ...kept, no, reservation }] : []));
  if (reduced.length === 0) return;
  const column = <Key extends keyof (typeof reduced)[number]>(key: Key) => reduced.map((row) => row[key]);
  await client.query(
    `update redemptions r set qty = n.qty, released_qty = n.released, refunded_qty = n.refunded, 
       burned_qty = case when r.status = 'voided' then 0 else n.burned end, reduced_at = ms(n.at)
     from unnest($1::uuid[], $2::int[], $3::int[], $4::int[], $5::int[], $6::int[], $7::bigint[])
       as n(id, no, qty, released, refunded, burned, at)
     join campaigns c on c.no = n.no
     where r.campaign_id = c.campaign_id and r.redemption_id = n.id and r.qty >= n.qty
       and ($8 or r.status <> 'voided')`,
    [
      column('reservation'),
      column('no'),
      column('qty'),
      column('released'),
      column('refunded'),
      column('burned'),
      column('atMs'),
      of === 'made',
    ],
  );
}
