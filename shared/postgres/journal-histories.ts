import { EngineUnavailable } from '../errors/faults.js';
import { type Heartbeat, Heartbeats, type HistoryRow, type StateRow } from './heartbeats.js';
import type { Database, Queryable } from './pool.js';

/** A history of the journal in Postgres (`journal_histories`). */
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
 * The state of the journal in Postgres. `cursor`: the last committed entry. `latest`: the latest history. `current`:
 * the latest history that went into service. Both histories are null before the first one. A history that never went
 * into service has no entries.
 */
export type JournalState = {
  cursor: string;
  latest: History | null;
  current: History | null;
  /** Number of shards of this installation. */
  shards: number;
  /** Of the last move of a campaign to another shard. */
  mapVersion: number;
  /** Whether entries that Redis lost wait to be applied. */
  recovered: boolean;
};

/** The histories of one shard, and the processes that use it: tables `journal_histories` and `journal_processes`. */
export class JournalHistories {
  constructor(
    readonly database: Database,
    readonly shard = 0,
    /** SHARDS of this process. */
    readonly shards = 1,
    readonly heartbeats = new Heartbeats(database),
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

  #beat(heartbeat: Heartbeat): Promise<readonly StateRow[]> {
    return this.heartbeats.send({ ...heartbeat, processId: this.#idOf(heartbeat.processId), shard: this.shard });
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
   * Counts the other processes that were alive within `withinMs` and have not reported `generation` yet, and the
   * entries that they still have to save.
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

  /** A process reports once for each shard, for shard 0 under its plain name. */
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
    shards: row.shards,
    mapVersion: Number(row.map_version),
    recovered: row.recovered,
  };
}

function historyOf({ generation, server, after_id, opened }: HistoryRow): History | null {
  return generation === null ? null : { generation: Number(generation), server, afterId: after_id, opened };
}
