import DataLoader from 'dataloader';
import { Batch } from './batch.js';
import type { Database } from './pool.js';
import { prepared } from './prepared.js';

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

/** What Postgres has about the journal of a shard, joined with its latest history, or its two latest ones. */
export type HistoryRow = { generation: string | null; server: string; after_id: string; opened: boolean };
export type StateRow = HistoryRow & {
  shard: number;
  last_id: string;
  shards: number;
  map_version: string;
  recovered: boolean;
};

const REPORTS = new Batch({
  ...{ processId: 'text', kind: 'text', generation: 'bigint', unsaved: 'int', serving: 'bigint', shard: 'smallint' },
  ...{ mapVersion: 'bigint' },
});

const BEAT = `with beats as (
    select * from ${REPORTS.sql}),
  beat as (
    insert into journal_processes (process_id, kind, seen_at, generation, unsaved, serving, shard, map_version)
    select processId, kind, clock_timestamp(), generation, unsaved, serving, shard, mapVersion
    from beats
    on conflict (process_id) do update set seen_at = excluded.seen_at, generation = excluded.generation,
      unsaved = excluded.unsaved, serving = excluded.serving, map_version = excluded.map_version)
  select c.shard, c.last_id, i.shards, i.map_version, h.*,
    exists (select 1 from recovered_entries r where r.shard = c.shard and r.applied_at is null) as recovered
  from beats b join journal_cursor c on c.shard = b.shard cross join installation i
  left join lateral (
    (select generation, server, after_id, opened_at is not null as opened
     from journal_histories where shard = c.shard order by generation desc limit 1)
    union
    (select generation, server, after_id, true
     from journal_histories where shard = c.shard and opened_at is not null order by generation desc limit 1)) h on true
  order by h.generation desc`;

type Report = Heartbeat & { shard: number };

/**
 * Sends the reports of a process to Postgres. The reports of its shards that fall into one moment are one statement, so
 * that 64 shards cost Postgres as many transactions as one.
 */
export class Heartbeats {
  readonly #loader: DataLoader<Report, readonly StateRow[]>;

  constructor(readonly database: Database) {
    this.#loader = new DataLoader((reports) => this.#send(reports), {
      cache: false,
      // The shards report at the same time, each by a timer of its own.
      batchScheduleFn: (send) => setImmediate(send),
    });
  }

  /**
   * @returns the state of the journal of the shard, the latest history first; empty = the installation lacks the shard
   * @throws EngineUnavailable
   */
  send(report: Report): Promise<readonly StateRow[]> {
    return this.#loader.load(report);
  }

  async #send(reports: readonly Report[]): Promise<StateRow[][]> {
    const { rows } = await this.database.query<StateRow>(prepared('beat', BEAT, REPORTS.of(reports)));
    return reports.map(({ shard }) => rows.filter((row) => row.shard === shard));
  }
}
