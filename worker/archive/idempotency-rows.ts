import type { Database } from '../../shared/postgres/pool.js';

/** Table `remembered_answers`: written by journal batches, read when Redis is filled. */
export class IdempotencyRows {
  constructor(readonly database: Database) {}

  /** Forgets what no key is asked for any more, at most `limit` rows. */
  async prune(olderThanMs: number, limit: number): Promise<void> {
    await this.database.query(
      `delete from remembered_answers where idempotency_key in (
         select idempotency_key from remembered_answers where made_at < now() - make_interval(secs => $1)
         order by made_at limit $2)`,
      [olderThanMs / 1000, limit],
    );
  }
}
