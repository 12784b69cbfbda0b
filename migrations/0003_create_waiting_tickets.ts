import type { Knex } from 'knex';

/** The line of each campaign, as it was joined and left. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    create table waiting_tickets (
      campaign_id uuid not null references campaigns,
      line_no bigint not null,
      user_id text not null,
      qty integer not null check (qty >= 1),
      status text not null check (status in ('waiting', 'promoted', 'left', 'closed')),
      reservation_id uuid not null,
      order_id text,
      joined_at timestamptz not null,
      ended_at timestamptz,
      device_fp text,
      idempotency_key text,
      idempotency_answer text,
      trace text,
      primary key (campaign_id, line_no)
    );
    comment on column waiting_tickets.reservation_id is 'made at checkout, used when the ticket is promoted';
    create unique index waiting_tickets_one_per_user on waiting_tickets (campaign_id, user_id) where status = 'waiting';
  `);
}

export async function down(): Promise<void> {
  throw new Error('migrations go forward only');
}
