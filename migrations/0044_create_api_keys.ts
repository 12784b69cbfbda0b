import type { Knex } from 'knex';

/**
 * API keys that operators create. Only the SHA-256 of a secret is stored. Names are unique for ever, because the audit
 * log refers to them.
 */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    create table api_keys (
      key_id uuid primary key,
      name text not null unique,
      kind text not null check (kind in ('service', 'admin')),
      role text check (role in ('viewer', 'support', 'marketer', 'admin')),
      digest bytea not null unique check (octet_length(digest) = 32),
      created_at timestamptz not null default now(),
      created_by text not null,
      expires_at timestamptz,
      revoked_at timestamptz,
      revoked_by text,
      last_used_at timestamptz,
      check ((kind = 'admin') = (role is not null))
    );
    comment on column api_keys.last_used_at is 'accurate to about a minute';
    create index api_keys_in_force on api_keys (key_id) where revoked_at is null;
  `);
}

export async function down(): Promise<void> {
  throw new Error('migrations go forward only');
}
