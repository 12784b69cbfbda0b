import { setTimeout as sleep } from 'node:timers/promises';
import type { Database } from './pool.js';

export type ReplicaLimits = {
  /** How long a read waits until the replica has what the primary had when the read began. */
  replicaWaitMs: number;
  /** How long a replica that failed is not asked again. */
  replicaAwayMs: number;
};

/**
 * Where to read. `asOf`: the journal entry up to which that database contains everything, or the entries of all shards,
 * separated by commas; rows of later entries may be there too.
 */
export type CurrentRead = { source: 'replica' | 'primary'; asOf: string };

const LOOK_EVERY_MS = 20;
const CURSORS = `(select string_agg(last_id, ',' order by shard) from journal_cursor) as last_id`;
const OF_PRIMARY = `select pg_current_wal_flush_lsn()::text as lsn, ${CURSORS}`;
/** A server that was promoted has a history of its own, so its position cannot be compared any more. */
const OF_REPLICA = `select pg_is_in_recovery() as replica, coalesce(pg_last_wal_replay_lsn() >= $1::pg_lsn, false) as reached,
  not exists (select 1 from unnest(string_to_array($2, ',')) with ordinality as p(id, n)
    left join journal_cursor c on c.shard = p.n - 1
    where coalesce(string_to_array(c.last_id, '-')::bigint[] < string_to_array(p.id, '-')::bigint[], true)) as contained,
  ${CURSORS}`;

type ReplicaState = { replica: boolean; reached: boolean; contained: boolean; last_id: string };

/**
 * Chooses the database of a large read: the replica, as soon as it has everything that the primary had when the read
 * began, so that callers find what they have just written. If it is away or too far behind, the primary.
 */
export class ReadReplica {
  #awayUntil = 0;

  /**
   * @param replica with a short limit of its statements, because it may hang
   * @param onPrimary called with the reason when a read that the replica should serve goes to the primary
   */
  constructor(
    readonly primary: Database,
    readonly replica: Database,
    readonly limits: ReplicaLimits,
    readonly onPrimary: (reason: string) => void,
  ) {}

  /** @throws EngineUnavailable when the primary is away, because the position to wait for is unknown then */
  async current(): Promise<CurrentRead> {
    const { rows } = await this.primary.query<{ lsn: string; last_id: string }>(OF_PRIMARY);
    const [now] = rows;
    if (!now?.last_id) throw new Error('journal_cursor has lost its rows');
    if (performance.now() >= this.#awayUntil) {
      try {
        const asOf = await this.#reach(now.lsn, now.last_id);
        if (asOf !== null) return { source: 'replica', asOf };
        this.onPrimary(`the replica is more than ${this.limits.replicaWaitMs} ms behind`);
      } catch (error) {
        this.onPrimary(error instanceof Error ? error.message : String(error));
      }
      this.#awayUntil = performance.now() + this.limits.replicaAwayMs;
    }
    return { source: 'primary', asOf: now.last_id };
  }

  /** @returns the cursor in the replica; null when it does not reach the position in time */
  async #reach(lsn: string, cursor: string): Promise<string | null> {
    const endsAt = performance.now() + this.limits.replicaWaitMs;
    let hadReached = false;
    for (;;) {
      const { rows } = await this.replica.query<ReplicaState>(OF_REPLICA, [lsn, cursor]);
      const [state] = rows;
      if (!state?.replica) throw new Error('DATABASE_READ_URL is not a replica');
      if (state.reached && state.contained) return state.last_id;
      if (hadReached) throw new Error('DATABASE_READ_URL is the replica of another database');
      // The rows of this statement may be older than the position, which Postgres reads while it runs.
      hadReached = state.reached;
      if (hadReached) continue;
      if (performance.now() > endsAt) return null;
      await sleep(LOOK_EVERY_MS);
    }
  }
}
