import type { Role } from '../domain/role.js';
import type { Database, Queryable } from './pool.js';

/** A key that an operator created. `role`: null = a key of a service. */
export type StoredKey = {
  id: string;
  name: string;
  role: Role | null;
  /** SHA-256 of the secret. */
  digest: Buffer;
  createdAt: Date;
  createdBy: string;
  /** null = the key does not expire */
  expiresAt: Date | null;
  revokedAt: Date | null;
  revokedBy: string | null;
  /** Accurate to about a minute; null = never used. */
  lastUsedAt: Date | null;
};
export type NewKey = Pick<StoredKey, 'id' | 'name' | 'role' | 'digest' | 'createdBy' | 'expiresAt'>;

const COLUMNS = `key_id as id, name, role, digest, created_at as "createdAt", created_by as "createdBy", expires_at as "expiresAt",
  revoked_at as "revokedAt", revoked_by as "revokedBy", last_used_at as "lastUsedAt"`;
const IN_FORCE = '(revoked_at is null and (expires_at is null or expires_at > now()))';

/** The table of API keys. */
export class ApiKeysTable {
  constructor(readonly database: Database) {}

  /** Returns the keys that are neither revoked nor expired. */
  async inForce(): Promise<StoredKey[]> {
    const { rows } = await this.database.query<StoredKey>(`select ${COLUMNS} from api_keys where ${IN_FORCE}`);
    return rows;
  }

  /** Returns the newest keys. @param all also revoked and expired ones */
  async list(all: boolean, limit: number): Promise<StoredKey[]> {
    const { rows } = await this.database.query<StoredKey>(
      `select ${COLUMNS} from api_keys where $1 or ${IN_FORCE} order by key_id desc limit $2`,
      [all, limit],
    );
    return rows;
  }

  /**
   * Inserts a key. Concurrent calls wait for each other, so that the limit holds.
   * @returns the reason why nothing was inserted, or the key
   */
  async insert(key: NewKey, limit: number, client: Queryable): Promise<StoredKey | 'name taken' | 'limit reached'> {
    await client.query(`select pg_advisory_xact_lock(hashtext('doorbuster api keys'))`);
    const { rows: counted } = await client.query<{ count: number }>(
      `select count(*)::int as count from api_keys where ${IN_FORCE}`,
    );
    if ((counted[0]?.count ?? 0) >= limit) return 'limit reached';
    const { id, name, role, digest, createdBy, expiresAt } = key;
    const { rows } = await client.query<StoredKey>(
      `insert into api_keys (key_id, name, kind, role, digest, created_by, expires_at)
       values ($1, $2, case when $3::text is null then 'service' else 'admin' end, $3, $4, $5, $6)
       on conflict do nothing returning ${COLUMNS}`,
      [id, name, role, digest, createdBy, expiresAt],
    );
    return rows[0] ?? 'name taken';
  }

  /** Revokes a key. Idempotent: the first revocation is kept. @returns the key after it; null = there is none */
  async revoke(id: string, by: string, client: Queryable): Promise<{ isNew: boolean; key: StoredKey } | null> {
    const { rows } = await client.query<StoredKey>(
      `update api_keys set revoked_at = now(), revoked_by = $2 where key_id = $1 and revoked_at is null returning ${COLUMNS}`,
      [id, by],
    );
    if (rows[0]) return { isNew: true, key: rows[0] };
    const { rows: before } = await client.query<StoredKey>(`select ${COLUMNS} from api_keys where key_id = $1`, [id]);
    return before[0] ? { isNew: false, key: before[0] } : null;
  }

  async markUsed(ids: readonly string[]): Promise<void> {
    await this.database.query('update api_keys set last_used_at = now() where key_id = any($1::uuid[])', [ids]);
  }
}
