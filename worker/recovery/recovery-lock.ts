import type { Database, Queryable } from '../../shared/postgres/pool.js';

/** The locks are pairs of this number and the shard. */
const SHARD_LOCKS = 7_102;
/** A holder that is frozen for longer loses the lock, because Postgres ends its transaction. */
const HOLDER_LIMIT_MS = 3_000;
const RENEW_EVERY_MS = 500;

/** The lock was lost while its holder worked. Another worker may hold it by now, so the holder must stop. */
export class LockLost extends Error {
  override readonly name = 'LockLost';
}

/**
 * Decides which worker recovers a shard. It is an advisory lock of a transaction in Postgres, renewed twice a second. A
 * holder that is frozen or disconnected loses it after three seconds. The lock makes recoveries exclusive in ordinary
 * operation. If a former holder still writes to Redis, the scripts reject its token.
 */
export class RecoveryLock {
  constructor(
    readonly database: Database,
    readonly shard = 0,
  ) {}

  /**
   * Runs `work` while holding the lock.
   * @param work receives a function that throws LockLost when the lock is lost
   * @returns false when another worker holds it
   */
  async hold(work: (assertHeld: () => void) => Promise<void>): Promise<boolean> {
    return this.database.transaction(async (client: Queryable) => {
      await client.query(`set local idle_in_transaction_session_timeout = ${HOLDER_LIMIT_MS}`);
      const { rows } = await client.query<{ mine: boolean }>(
        `select pg_try_advisory_xact_lock(${SHARD_LOCKS}, ${this.shard}) as mine`,
      );
      if (!rows[0]?.mine) return false;
      let lost: unknown = null;
      let renewal: Promise<void> | null = null;
      const renewing = setInterval(() => {
        // A connection takes one statement at a time, and Postgres may be slow.
        renewal ??= client
          .query('select 1')
          .then(
            () => {},
            (error: unknown) => {
              lost = error;
            },
          )
          .finally(() => {
            renewal = null;
          });
      }, RENEW_EVERY_MS);
      try {
        await work(() => {
          if (lost) throw new LockLost(`the recovery lock was lost: ${String(lost)}`);
        });
      } finally {
        clearInterval(renewing);
        await renewal;
      }
      return true;
    });
  }
}
