import { randomUUID } from 'node:crypto';
import { uuidv7 } from 'uuidv7';
import type { UserId } from '../domain/ids.js';
import type { Database, Queryable } from './pool.js';

/** Table → number of rows that an erasure has changed or deleted. */
export type ErasedRows = Record<string, number>;
export type Erasure = { id: string; pseudonym: UserId; rows: ErasedRows };

/** A new pseudonym. It is random, so that it cannot be computed from the id, and no key has to be kept. */
export const newPseudonym = (): UserId => `erased-${randomUUID()}` as UserId;
const PSEUDONYM = /^erased-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
/** Whether an id looks like a pseudonym. A user who has chosen such an id is not recognizable by it. */
export const isPseudonym = (user: UserId): boolean => PSEUDONYM.test(user);

/** Table `erasures`. It has the id of a user only while the erasure runs. Every method throws EngineUnavailable. */
export class Erasures {
  constructor(readonly database: Database) {}

  /** Begins an erasure, or returns the one that was interrupted. */
  async begin(user: UserId, actor: string): Promise<Erasure> {
    const { rows } = await this.database.query<{ erasure_id: string; pseudonym: UserId; rows: ErasedRows }>(
      `insert into erasures (erasure_id, user_id, pseudonym, actor) values ($1, $2, $3, $4)
       on conflict (user_id) do update set actor = excluded.actor returning erasure_id, pseudonym, rows`,
      [uuidv7(), user, newPseudonym(), actor],
    );
    const [row] = rows;
    if (!row) throw new Error('an erasure was not stored');
    return { id: row.erasure_id, pseudonym: row.pseudonym, rows: row.rows };
  }

  /** Uses another pseudonym for what follows, because the user came back under the erased id. */
  async renew(id: string): Promise<UserId> {
    const pseudonym = newPseudonym();
    await this.database.query('update erasures set pseudonym = $2 where erasure_id = $1', [id, pseudonym]);
    return pseudonym;
  }

  /** Removes an erasure that has not changed anything yet. */
  async withdraw(id: string): Promise<void> {
    await this.database.query(`delete from erasures where erasure_id = $1 and rows = '{}' and finished_at is null`, [
      id,
    ]);
  }

  /** Adds changed rows to the progress. */
  async count(client: Queryable, id: string, table: string, rows: number): Promise<void> {
    await client.query(
      `update erasures set rows = rows || jsonb_build_object($2::text, coalesce((rows ->> $2)::int, 0) + $3::int)
       where erasure_id = $1`,
      [id, table, rows],
    );
  }

  /** Removes the id of the user from the erasure itself. @returns null when another request has finished it */
  async finish(client: Queryable, id: string): Promise<ErasedRows | null> {
    const { rows } = await client.query<{ rows: ErasedRows }>(
      'update erasures set user_id = null, finished_at = now() where erasure_id = $1 and finished_at is null returning rows',
      [id],
    );
    return rows[0]?.rows ?? null;
  }

  /** The rows of an erasure so far. */
  async rowsOf(id: string): Promise<ErasedRows> {
    const { rows } = await this.database.query<{ rows: ErasedRows }>(
      'select rows from erasures where erasure_id = $1',
      [id],
    );
    return rows[0]?.rows ?? {};
  }
}
