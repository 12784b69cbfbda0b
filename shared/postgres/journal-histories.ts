import { EngineUnavailable } from '../errors/faults.js';
import type { Database, Queryable } from './pool.js';
import { prepared } from './prepared.js';

/** A history of the journal in Postgres (migration 0015). */
export type History = {
  generation: number;
  /** `master_replid` of the Redis server that was verified. */
  server: string;
  /** The last journal entry of earlier histories that this history contains. */
  afterId: string;
  /** Whether the history went into service; false while Redis is being recovered. */
  opened: boolean;
};

/**
 * The version of this process (`journal_processes.version`): 2 = it can read events without data, and journal entries
 * with several promises; 3 = it can write partitions of `redemptions`.
 */
export const PROCESS_VERSION = 3;
export const RECORDS_VERSION = 2;

/** What a process reports about itself. */
export type Heartbeat = {
  processId: string;
  kind: 'api' | 'worker';
  /** The latest history for which the process has saved its promises that the history lacks. */
  generation: number;
  /** Number of entries that the process still has to save. */
  unsaved: number;
  /** Generation of the Redis that the process uses; null while it uses none. */
  serving: number | null;
  /** Of the moves of campaigns that the process knows. */
  mapVersion: number;
};

/**
 * The state of the journal in Postgres. `cursor`: the last committed entry. `latest`: the latest history. `current`:
 * the latest history that went into service. Both histories are null before the first one. A history that never went
 * into service has no entries.
 */
export type JournalState = {
  cursor: string;
  latest: History | null;
  current: History | null;
  /** Whether there is a live worker, and all live workers can read journal entries with several promises. */
  mayPack: boolean;
  /** Number of shards of this installation. */
  shards: number;
  /** Of the last move of a campaign to another shard. */
  mapVersion: number;
};

/**
 * A worker counts as alive for this long after its last report. The time is longer for earlier versions, because such a
 * worker may be frozen or may restart.
 */
const WORKER_ALIVE_SECONDS = 5;
const EARLIER_WORKER_SECONDS = 60;

type HistoryRow = {
  generation: string | null;
  server: string;
  after_id: string;
  opened: boolean;
};

type StateRow = HistoryRow & { last_id: string; may_pack: boolean | null; shards: number; map_version: string };

/** Joins the latest history and the latest opened history of the shard: one row or two. */
const LATEST = `left join lateral (
  (select generation, server, after_id, opened_at is not null as opened
   from journal_histories where shard = $6 order by generation desc limit 1)
  union
  (select generation, server, after_id, true
   from journal_histories where shard = $6 and opened_at is not null order by generation desc limit 1)) h on true
  where c.shard = $6 order by h.generation desc`;

/** The histories of one shard, and the processes that use it: tables `journal_histories` and `journal_processes`. */
export class JournalHistories {
  constructor(
    readonly database: Database,
    readonly shard = 0,
    /** SHARDS of this process. */
    readonly shards = 1,
  ) {}

  /**
   * Reports a process as alive and reads the state of the journal, in one statement. A new installation gets as many
   * shards as the first process has.
   * @throws EngineUnavailable when the installation has no such shard
   */
  async beat(heartbeat: Heartbeat): Promise<JournalState> {
    let rows = await this.#beat(heartbeat);
    const [row] = rows;
    if (row === undefined || (row.shards !== this.shards && row.generation === null)) {
      await this.#adoptShards();
      rows = await this.#beat(heartbeat);
    }
    if (rows.length === 0)
      throw new EngineUnavailable('postgres', `this installation has no shard ${this.shard}; compare SHARDS`);
    return stateOf(rows);
  }

  async #adoptShards(): Promise<void> {
    await this.database.query(
      `with adopted as (
         update installation set shards = $1 where not exists (select 1 from journal_histories) returning shards)
       insert into journal_cursor (shard, last_id)
       select n, '0-0' from adopted, generate_series(0, adopted.shards - 1) n on conflict do nothing`,
      [this.shards],
    );
  }

  async #beat({ processId, kind, generation, unsaved, serving, mapVersion }: Heartbeat): Promise<StateRow[]> {
    const { rows } = await this.database.query<StateRow>(
      prepared(
        'beat',
        `with beat as (
         insert into journal_processes (process_id, kind, seen_at, generation, unsaved, serving, version, shard,
           map_version)
         values ($1, $2, clock_timestamp(), $3, $4, $5, ${PROCESS_VERSION}, $6, $7)
         on conflict (process_id) do update set seen_at = excluded.seen_at, generation = excluded.generation,
           unsaved = excluded.unsaved, serving = excluded.serving,
           map_version = excluded.map_version)
       select c.last_id, (select bool_and(version >= ${RECORDS_VERSION}) from journal_processes where kind = 'worker'
         and shard = $6 and seen_at > clock_timestamp() - make_interval(secs => case when version >= ${RECORDS_VERSION}
           then ${WORKER_ALIVE_SECONDS} else ${EARLIER_WORKER_SECONDS} end)) as may_pack,
         i.shards, i.map_version, h.* from journal_cursor c cross join installation i ${LATEST}`,
        [this.#idOf(processId), kind, generation, unsaved, serving, this.shard, mapVersion],
      ),
    );
    return rows;
  }

  /** Removes a process that ends, so that no recovery waits for it. */
  async leave(processId: string): Promise<void> {
    await this.database.query('delete from journal_processes where process_id = $1', [this.#idOf(processId)]);
  }

  /** The last entry before a history; null when the history is not in Postgres. */
  async beginningOf(generation: number): Promise<string | null> {
    const { rows } = await this.database.query<{ after_id: string }>(
      'select after_id from journal_histories where generation = $1 and shard = $2',
      [generation, this.shard],
    );
    return rows[0]?.after_id ?? null;
  }

  /** Histories that went into service, oldest first. */
  async opened(client: Queryable = this.database): Promise<History[]> {
    const { rows } = await client.query<HistoryRow>(
      `select generation, server, after_id, true as opened
       from journal_histories where shard = $1 and opened_at is not null order by generation`,
      [this.shard],
    );
    return rows.flatMap((row) => historyOf(row) ?? []);
  }

  /** Histories later than `generation`, oldest first. */
  async since(generation: number): Promise<History[]> {
    const { rows } = await this.database.query<HistoryRow>(
      `select generation, server, after_id, opened_at is not null as opened
       from journal_histories where shard = $2 and generation > $1 order by generation`,
      [generation, this.shard],
    );
    return rows.flatMap((row) => historyOf(row) ?? []);
  }

  /**
   * Begins a history that is not in service yet. The caller holds the lock on the cursor.
   * @returns false when a later history exists, because another worker has begun it, or the number of shards has
   *   changed
   */
  async begin(client: Queryable, history: Omit<History, 'opened'>, reason: string): Promise<boolean> {
    const { generation, server, afterId } = history;
    const { rowCount } = await client.query(
      `insert into journal_histories (generation, server, after_id, reason, shard)
       select $1::bigint, $2, $3, $4, $5
       where not exists (select 1 from journal_histories where shard = $5 and generation >= $1::bigint)
         and (select shards from installation) = $6`,
      [generation, server, afterId, reason, this.shard, this.shards],
    );
    await client.query("delete from journal_processes where seen_at < now() - interval '1 hour'");
    return rowCount === 1;
  }

  async open(generation: number): Promise<void> {
    await this.database.query('update journal_histories set opened_at = now() where generation = $1', [generation]);
  }

  /**
   * Counts the other processes (not `processId`) that were alive within `withinMs` and have not reported `generation`
   * yet, and the entries that they still have to save.
   */
  async awaited(
    generation: number,
    processId: string,
    withinMs: number,
  ): Promise<{ processes: number; unsaved: number }> {
    const { rows } = await this.database.query<{ processes: number; unsaved: number }>(
      `select count(*)::int as processes, coalesce(sum(unsaved), 0)::int as unsaved from journal_processes
       where shard = $4 and generation < $1 and process_id <> $2
         and seen_at > clock_timestamp() - make_interval(secs => $3)`,
      [generation, this.#idOf(processId), withinMs / 1000, this.shard],
    );
    return rows[0] ?? { processes: 0, unsaved: 0 };
  }

  /** Whether every other process that was alive within `withinMs` knows this version of the moves of campaigns. */
  async allKnowMap(version: number, processId: string, withinMs: number): Promise<boolean> {
    const { rows } = await this.database.query(
      `select 1 from journal_processes
       where shard = $3 and map_version < $1 and process_id <> $2
         and seen_at > clock_timestamp() - make_interval(secs => $4) limit 1`,
      [version, this.#idOf(processId), this.shard, withinMs / 1000],
    );
    return rows.length === 0;
  }

  /** Whether another process used the Redis of this generation within `withinMs`. */
  async isServed(generation: number, processId: string, withinMs: number): Promise<boolean> {
    const { rows } = await this.database.query(
      `select 1 from journal_processes
       where serving = $1 and process_id <> $2 and seen_at > clock_timestamp() - make_interval(secs => $3) limit 1`,
      [generation, this.#idOf(processId), withinMs / 1000],
    );
    return rows.length > 0;
  }

  /** A process reports once for each shard. Processes of earlier versions use shard 0 and their plain name. */
  #idOf(processId: string): string {
    return this.shard === 0 ? processId : `${processId}/${this.shard}`;
  }
}

function stateOf(rows: readonly StateRow[]): JournalState {
  const [row] = rows;
  if (!row) throw new Error('journal_cursor has lost its row');
  const open = rows.find(({ opened }) => opened);
  return {
    cursor: row.last_id,
    latest: historyOf(row),
    current: open ? historyOf(open) : null,
    mayPack: row.may_pack ?? false,
    shards: row.shards,
    mapVersion: Number(row.map_version),
  };
}

function historyOf({ generation, server, after_id, opened }: HistoryRow): History | null {
  return generation === null ? null : { generation: Number(generation), server, afterId: after_id, opened };
}
