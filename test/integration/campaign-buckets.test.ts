import { expect, test } from '@jest/globals';
import { numberOfBucket, splitUnits } from '../../shared/domain/buckets.js';
import { newReservationPrefix, reservationIdOf } from '../../shared/domain/ids.js';
import { createTestDatabase } from '../harness/engines.js';

/** What Postgres itself refuses about the buckets of a campaign, whichever worker writes. */
const { client: sql } = await createTestDatabase();
let products = 0;

async function createCampaign(total: number, buckets: number): Promise<{ id: string; no: number }> {
  products += 1;
  await sql.query('begin');
  const { rows } = await sql.query(
    `insert into campaigns (campaign_id, product_id, name, type, total_limit, per_user_limit, max_qty, starts_at, time_zone, hold_seconds,
       waiting_room, confirmation, late_payment, refund_policy, require_attestation, rules, status, buckets)
     values (gen_random_uuid(), $1, 'a', 'shared', $2, 1, 100, now(), 'UTC', 60, '{}', 'fast', 'refuse', 'return', false, '{}', 'open', $3)
     returning campaign_id as id, no`,
    [`product-${products}`, total, buckets],
  );
  for (const [bucket, units] of splitUnits(total, buckets).entries())
    await sql.query('insert into campaign_buckets (campaign_id, bucket, total) values ($1, $2, $3)', [
      rows[0].id,
      bucket,
      units,
    ]);
  await sql.query('commit');
  return rows[0];
}

async function reserve({ id, no }: { id: string; no: number }, bucket: number, qty = 1): Promise<string> {
  const reservation = reservationIdOf(newReservationPrefix(), numberOfBucket(no, bucket));
  await sql.query(
    `insert into redemptions (redemption_id, campaign_id, user_id, order_id, qty, slot, status, reserved_at)
     values ($1, $2, $4, 'order', $3, 1, 'reserved', now())`,
    [reservation, id, qty, reservation],
  );
  return reservation;
}

/** Runs statements in one transaction. */
async function together(...statements: [string, unknown[]][]): Promise<void> {
  await sql.query('begin');
  try {
    for (const [text, values] of statements) await sql.query(text, values);
    await sql.query('commit');
  } catch (error) {
    await sql.query('rollback');
    throw error;
  }
}

const refusedBy = (constraint: string) => expect.objectContaining({ constraint });
const takeUnits = (id: string, bucket: number, units: number): [string, unknown[]] => [
  'update campaign_buckets set total = total - $3 where campaign_id = $1 and bucket = $2',
  [id, bucket, units],
];
const sendUnits = (id: string, from: number, to: number, units: number): [string, unknown[]] => [
  'insert into stock_transfers (campaign_id, from_bucket, out_no, to_bucket, units, moved_out_at) values ($1, $2, 1, $3, $4, now())',
  [id, from, to, units],
];

test('a bucket takes no more units than it has, although the campaign has more', async () => {
  const campaign = await createCampaign(4, 2);
  await reserve(campaign, 1, 2);
  await expect(reserve(campaign, 1)).rejects.toEqual(refusedBy('campaign_buckets_cap'));
  const second = await reserve(campaign, 0, 2);
  await sql.query("update redemptions set status = 'released' where redemption_id = $1", [second]);
  await sql.query("update redemptions set status = 'redeemed' where campaign_id = $1 and status = 'reserved'", [
    campaign.id,
  ]);
  const { rows } = await sql.query(
    `select bucket, total::int, held::int, redeemed::int, reservations::int from campaign_buckets
     where campaign_id = $1 order by bucket`,
    [campaign.id],
  );
  expect(rows).toEqual([
    { bucket: 0, total: 2, held: 0, redeemed: 0, reservations: 1 },
    { bucket: 1, total: 2, held: 0, redeemed: 2, reservations: 1 },
  ]);
});

test('no transaction leaves more or fewer units in the buckets and on their way than the campaign has', async () => {
  const { id } = await createCampaign(10, 2);
  const conserved = refusedBy('campaign_buckets_conserved');
  await expect(together(takeUnits(id, 0, 2))).rejects.toEqual(conserved);
  await expect(together(sendUnits(id, 0, 1, 2))).rejects.toEqual(conserved);
  await expect(together(['update campaigns set total_limit = 11 where campaign_id = $1', [id]])).rejects.toEqual(
    conserved,
  );
  await together(takeUnits(id, 0, 2), sendUnits(id, 0, 1, 2));
  await expect(
    together(['update stock_transfers set moved_in_at = now() where campaign_id = $1', [id]]),
  ).rejects.toEqual(conserved);
  await together(['update stock_transfers set moved_in_at = now() where campaign_id = $1', [id]], takeUnits(id, 1, -2));
});

test('a campaign without buckets has no rows and is not compared', async () => {
  const campaign = await createCampaign(3, 1);
  await sql.query('delete from campaign_buckets where campaign_id = $1', [campaign.id]);
  await reserve(campaign, 0, 3);
  await sql.query('update campaigns set total_limit = 5 where campaign_id = $1', [campaign.id]);
  await reserve(campaign, 0, 2);
});

test('the numbers of campaigns leave room for the bucket, in every region', async () => {
  await sql.query(`select setval(pg_get_serial_sequence('campaigns', 'no'), $1)`, [2 ** 23 - 1]);
  await expect(createCampaign(1, 1)).rejects.toEqual(refusedBy('campaigns_no_without_bucket'));
  await sql.query('rollback');
  await sql.query(`select setval(pg_get_serial_sequence('campaigns', 'no'), $1)`, [2 ** 27]);
  expect((await createCampaign(1, 1)).no).toBe(2 ** 27 + 1);
});
