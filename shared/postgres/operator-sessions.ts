import { uuidv7 } from 'uuidv7';
import type { Role } from '../domain/role.js';
import type { Database, Queryable } from './pool.js';

/** A session of an operator who logged in with OpenID Connect. */
export type StoredSession = {
  id: string;
  operator: string;
  role: Role;
  createdAt: Date;
  /** Accurate to about a minute. */
  lastSeenAt: Date;
  expiresAt: Date;
};
export type NewSession = { digest: Buffer; role: Role; lifeMs: number };
export type SubjectOfOperator = { issuer: string; subject: string };

const COLUMNS = `s.session_id as id, o.name as operator, s.role, s.created_at as "createdAt", s.last_seen_at as "lastSeenAt",
  s.expires_at as "expiresAt"`;
/** `$1`: idle time, milliseconds. */
const IN_FORCE = `s.ended_at is null and s.expires_at > now() and s.last_seen_at > now() - $1 * interval '1 millisecond'`;
/** How long ended sessions are kept. */
const KEPT = `interval '30 days'`;

/** The tables of operators and their sessions. */
export class OperatorSessionsTable {
  constructor(
    readonly database: Database,
    readonly idleMs: number,
  ) {}

  /**
   * Returns the operator of a subject. A new subject gets the first of the names that no other operator has.
   * @param names with an `@`, so that no key has one of them
   */
  async operatorOf({ issuer, subject }: SubjectOfOperator, names: readonly string[], client: Queryable) {
    const known = `update operators set last_login_at = now() where issuer = $1 and subject = $2 returning operator_id as id, name`;
    const { rows } = await client.query<{ id: string; name: string }>(known, [issuer, subject]);
    if (rows[0]) return rows[0];
    for (const name of names) {
      const { rows: inserted } = await client.query<{ id: string; name: string }>(
        `insert into operators (operator_id, name, issuer, subject) values ($1, $2, $3, $4)
         on conflict do nothing returning operator_id as id, name`,
        [uuidv7(), name, issuer, subject],
      );
      if (inserted[0]) return inserted[0];
      // Another login of the same subject may have been first.
      const { rows: again } = await client.query<{ id: string; name: string }>(known, [issuer, subject]);
      if (again[0]) return again[0];
    }
    throw new Error('every name for this operator is taken');
  }

  /** Opens a session and deletes those that ended long ago. @returns its id and end */
  async open(
    operator: string,
    { digest, role, lifeMs }: NewSession,
    client: Queryable,
  ): Promise<{ id: string; expiresAt: Date }> {
    await client.query(`delete from operator_sessions where expires_at < now() - ${KEPT}`);
    const { rows } = await client.query<{ id: string; expiresAt: Date }>(
      `insert into operator_sessions (session_id, operator_id, digest, role, expires_at)
       values ($1, $2, $3, $4, now() + $5 * interval '1 millisecond') returning session_id as id, expires_at as "expiresAt"`,
      [uuidv7(), operator, digest, role, lifeMs],
    );
    return rows[0] as { id: string; expiresAt: Date };
  }

  /** Returns the session of a token; null = it has ended or never was. */
  async find(digest: Buffer): Promise<StoredSession | null> {
    const { rows } = await this.database.query<StoredSession>(
      `select ${COLUMNS} from operator_sessions s join operators o using (operator_id) where s.digest = $2 and ${IN_FORCE}`,
      [this.idleMs, digest],
    );
    return rows[0] ?? null;
  }

  async markSeen(id: string): Promise<void> {
    await this.database.query('update operator_sessions set last_seen_at = now() where session_id = $1', [id]);
  }

  /** Returns the sessions in force, latest first. */
  async list(limit: number): Promise<StoredSession[]> {
    const { rows } = await this.database.query<StoredSession>(
      `select ${COLUMNS} from operator_sessions s join operators o using (operator_id) where ${IN_FORCE}
       order by s.session_id desc limit $2`,
      [this.idleMs, limit],
    );
    return rows;
  }

  /** Ends a session. Idempotent. @returns its operator if this call ended it; null = it had ended; undefined = none */
  async end(id: string, by: string, client: Queryable): Promise<string | null | undefined> {
    const { rows } = await client.query<{ operator: string; isNew: boolean }>(
      `with ended as (
         update operator_sessions set ended_at = now(), ended_by = $2 where session_id = $1 and ended_at is null returning session_id
       )
       select o.name as operator, exists (select from ended) as "isNew"
       from operator_sessions s join operators o using (operator_id) where s.session_id = $1`,
      [id, by],
    );
    const [found] = rows;
    return found && (found.isNew ? found.operator : null);
  }
}
