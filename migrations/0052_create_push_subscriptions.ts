import type { Knex } from 'knex';

/**
 * Web Push subscriptions of users in line, one for each place and browser. A row is also the message that waits to be
 * sent: `message` and what follows it are set when the turn of the user comes. It is deleted when it was sent.
 */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    create table push_subscriptions (
      reservation_id uuid not null,
      endpoint text not null,
      campaign_id uuid not null references campaigns,
      user_id text not null,
      p256dh text not null,
      auth text not null,
      language text not null,
      created_at timestamptz not null default now(),
      message text check (message in ('promoted', 'line_closed', 'campaign_closed')),
      pay_before timestamptz,
      send_before timestamptz,
      attempts integer not null default 0,
      next_attempt_at timestamptz,
      primary key (reservation_id, endpoint),
      check ((message is null) = (next_attempt_at is null)),
      check ((message is null) = (send_before is null))
    );
    comment on column push_subscriptions.reservation_id is 'of the place, made at checkout';
    comment on column push_subscriptions.endpoint is 'URL at the push service of the browser';
    comment on column push_subscriptions.p256dh is 'public key of the browser, base64url';
    comment on column push_subscriptions.auth is 'authentication secret of the subscription, base64url';
    comment on column push_subscriptions.message is 'null = nothing to send yet';
    comment on column push_subscriptions.pay_before is 'of a promotion; null = nothing to pay';
    comment on column push_subscriptions.send_before is 'when the message is worth nothing any more';
    create index push_subscriptions_due on push_subscriptions (next_attempt_at) where message is not null;
    create index push_subscriptions_by_campaign on push_subscriptions (campaign_id) where message is null;
    create index push_subscriptions_by_user on push_subscriptions (user_id);
  `);
}

export async function down(): Promise<void> {
  throw new Error('migrations go forward only');
}
