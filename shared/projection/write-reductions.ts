import { Batch } from '../postgres/batch.js';
import type { Queryable } from '../postgres/pool.js';
import type { RedemptionChange } from './projection.js';

const REDUCTIONS = new Batch({
  ...{ no: 'int', reservation: 'uuid', qty: 'int', released: 'int', refunded: 'int', burned: 'int', atMs: 'bigint' },
});

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
  await client.query(
    `update redemptions r set qty = n.qty, released_qty = n.released, refunded_qty = n.refunded,
       burned_qty = case when r.status = 'voided' then 0 else n.burned end, reduced_at = ms(n.atMs)
     from ${REDUCTIONS.sql} join campaigns c on c.no = n.no
     where r.campaign_id = c.campaign_id and r.redemption_id = n.reservation and r.qty >= n.qty
       and ($${REDUCTIONS.count + 1} or r.status <> 'voided')`,
    [...REDUCTIONS.of(reduced), of === 'made'],
  );
}
