import type { Knex } from 'knex';

/**
 * Bans, and exceptions that no rule may ban. A row is lifted, not deleted, so it shows how long it was in force. Only
 * the few rows in force are read often, so the index has those that were not lifted.
 */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    create table bans (
      ban_id uuid primary key,
      effect text not null check (effect in ('ban', 'allow')),
      kind text not null check (kind in ('user', 'device', 'network')),
      subject text not null,
      until timestamptz,
      reason text not null,
      actor text not null,
      created_at timestamptz not null default now(),
      lifted_at timestamptz,
      lifted_by text,
      changed_at timestamptz not null default now(),
      check ((lifted_at is null) = (lifted_by is null))
    );
    comment on column bans.subject is 'of a network: IPv4 address, IPv6 /64 or a range, in one notation';
    comment on column bans.until is 'null = until it is lifted';
    comment on column bans.actor is 'an operator, or the rule that did it';
    create index bans_in_force on bans (until) where lifted_at is null;
    create index bans_by_change on bans (changed_at);
    create index bans_by_subject on bans (kind, subject);
  `);
}

export async function down(): Promise<void> {
  throw new Error('migrations go forward only');
}
