import type { Knex } from 'knex';

/**
 * Payments of reservations that were paid already: redemptions.payment_ref has the first one. No foreign key to
 * redemptions, because a payment is kept whatever happens to the row.
 */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    create table duplicate_payments (
      reservation_id uuid not null,
      payment_ref text not null,
      campaign_id uuid not null references campaigns,
      paid_at timestamptz not null,
      primary key (reservation_id, payment_ref)
    );
    create index duplicate_payments_by_campaign on duplicate_payments (campaign_id, paid_at);
  `);
}

export async function down(): Promise<void> {
  throw new Error('migrations go forward only');
}
