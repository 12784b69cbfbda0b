import type { Knex } from 'knex';

/**
 * Operators who logged in with OpenID Connect, and their sessions. A name belongs to one subject for ever, because the
 * audit log has names. Only the SHA-256 of the token of a session is stored.
 */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    create table operators (
      operator_id uuid primary key,
      name text not null unique,
      issuer text not null,
      subject text not null,
      created_at timestamptz not null default now(),
      last_login_at timestamptz not null default now(),
      unique (issuer, subject)
    );
    create table operator_sessions (
      session_id uuid primary key,
      operator_id uuid not null references operators on delete cascade,
      digest bytea not null unique check (octet_length(digest) = 32),
      role text not null check (role in ('viewer', 'support', 'marketer', 'admin')),
      created_at timestamptz not null default now(),
      last_seen_at timestamptz not null default now(),
      expires_at timestamptz not null,
      ended_at timestamptz,
      ended_by text
    );
    comment on column operator_sessions.last_seen_at is 'accurate to about a minute';
    create index operator_sessions_by_end on operator_sessions (expires_at);
  `);
}

export async function down(): Promise<void> {
  throw new Error('migrations go forward only');
}
