import type { Database } from '../../shared/postgres/pool.js';

/** Table `remembered_answers`. Journal batches write it, and it is read when Redis is filled. */
export class IdempotencyRows {
  constructor(readonly database: Database) {}

  /** Deletes records that are older than the lifetime of an idempotency key, at most `limit` rows. */
  async prune(olderThanMs: number, limit: number): Promise<void> {
    await this.database.query(
      `delete from remembered_answers where (campaign_id, idempotency_key) in (
         select campaign_id, idempotency_key from remembered_answers where made_at < now() - make_interval(secs => $1)
         order by made_at limit $2)`,
      [olderThanMs / 1000, limit],
    );
  }
}
