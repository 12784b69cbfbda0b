import type { CampaignStatus } from '../domain/campaign.js';
import type { StoredCampaign } from '../postgres/campaigns.js';
import { JournalHistories } from '../postgres/journal-histories.js';
import { pagesOf } from '../postgres/pages.js';
import type { JournalCursor } from '../projection/journal-cursor.js';
import type { Head, Place, Reservation, ReservationState } from './facts.js';

/** Facts as Postgres has them at the cursor: each is read in one statement with it. */
export type InPostgres<Facts> = { facts: Facts; cursor: string };

export type HeadRow = { head: Head | null; states: ReadonlyMap<string, ReservationState> };

type HeadColumns = Partial<Record<'held' | 'redeemed' | 'burned' | 'waiting', number>> & {
  status: CampaignStatus | null;
  total: number | null;
  states: Record<string, ReservationState> | null;
};

/** The state of a row, as Redis names it. */
const STATE = `case when r.burned then 'burned' else r.status end`;

/** Reads the rows of a campaign, or of one of its buckets, with the cursor of its shard. */
export class PostgresReader {
  readonly histories: JournalHistories;

  constructor(
    readonly cursor: JournalCursor,
    readonly campaign: Pick<StoredCampaign, 'id'>,
    readonly bucket: number,
  ) {
    this.histories = new JournalHistories(cursor.database, cursor.shard);
  }

  async reservations(ids: readonly string[]): Promise<InPostgres<ReadonlyMap<string, Reservation>>> {
    type Row = Reservation & { id: string };
    const { cursor, rows } = await this.#withCursor<Row>(
      `select r.redemption_id as id, ${STATE} as state, r.user_id as "user", r.qty, r.released_qty as released,
         r.refunded_qty as refunded, r.burned_qty as burned, r.order_id as "order", r.code_no as code,
         coalesce(extract(epoch from r.pay_before) * 1000, 0)::float8 as "dueMs"
       from redemptions r where r.campaign_id = $2 and r.redemption_id = any($3::uuid[])`,
      [ids],
    );
    return { cursor, facts: new Map(rows.map(({ id, ...reservation }) => [id, reservation])) };
  }

  /** Returns those of these reservations that have no row at this moment. */
  async missing(ids: readonly string[]): Promise<readonly string[]> {
    const { rows } = await this.cursor.database.query<{ id: string }>(
      `select id from unnest($2::uuid[]) id
       where not exists (select 1 from redemptions r where r.campaign_id = $1 and r.redemption_id = id)`,
      [this.campaign.id, ids],
    );
    return rows.map(({ id }) => id);
  }

  /** The places of those of these users who wait. `ended`: the line has ended in all buckets. */
  async places(users: readonly string[]): Promise<InPostgres<ReadonlyMap<string, Place>> & { ended: boolean }> {
    type Row = { user: string | null; line_no: number; qty: number; reservation: string; status: CampaignStatus };
    const { cursor, rows } = await this.#withCursor<Row>(
      `select c.status, t.user_id as user, t.line_no::float8 as line_no, t.qty, t.reservation_id as reservation
       from campaigns c left join waiting_tickets t
         on t.campaign_id = c.campaign_id and t.status = 'waiting' and t.user_id = any($3)
       where c.campaign_id = $2`,
      [users],
    );
    const places = rows.flatMap(({ user, line_no: lineNo, qty, reservation }) =>
      user === null ? [] : [[user, { lineNo, qty, reservation }] as const],
    );
    return { cursor, facts: new Map(places), ended: this.bucket > 0 && rows[0]?.status === 'closed' };
  }

  /** @param voided reservations whose states are needed too */
  async head(voided: readonly string[]): Promise<InPostgres<HeadRow>> {
    const own = (id: string) => `(b.bucket is null or redemption_bucket(${id}) = b.bucket)`;
    const { cursor, rows } = await this.#withCursor<HeadColumns>(
      `select c.status, (case when b.bucket is null then c.total_limit else b.total end)::float8 as total,
         coalesce(b.held, c.held)::float8 as held, coalesce(b.redeemed, c.redeemed)::float8 as redeemed,
         coalesce(b.burned, c.burned)::float8 as burned,
         (select count(*) from waiting_tickets t where t.campaign_id = c.campaign_id and t.status = 'waiting'
            and ${own('t.reservation_id')})::float8 as waiting,
         (select json_object_agg(r.redemption_id, ${STATE}) from redemptions r
            where r.campaign_id = c.campaign_id and r.redemption_id = any($3::uuid[])) as states
       from campaigns c left join campaign_buckets b on b.campaign_id = c.campaign_id and b.bucket = ${this.bucket}
       where c.campaign_id = $2`,
      [voided],
    );
    const [row] = rows;
    const states = new Map(Object.entries(row?.states ?? {}));
    if (!row?.status) return { cursor, facts: { head: null, states } };
    const { status, total, held = 0, redeemed = 0, burned = 0, waiting = 0 } = row;
    return { cursor, facts: { head: { status, total, held, redeemed, burned, waiting }, states } };
  }

  /** Yields the ids of reservations in batches. @param bucket only those of a bucket; null = all */
  async *reservationIds(batch: number, bucket: number | null = null): AsyncGenerator<readonly string[]> {
    const pages = this.#pages<{ id: string }>(
      `select redemption_id as id from redemptions where campaign_id = $1 and ($3::uuid is null or redemption_id > $3)
         and ($4::int is null or redemption_bucket(redemption_id) = $4)
       order by redemption_id limit $2`,
      { batch, bucket, keyOf: ({ id }) => id },
    );
    for await (const rows of pages) yield rows.map(({ id }) => id);
  }

  /** Yields the users who wait, and the ids of their places, in batches. @param bucket as for reservations */
  waitingUsers(
    batch: number,
    bucket: number | null = null,
  ): AsyncGenerator<readonly { user: string; reservation: string }[]> {
    return this.#pages<{ user: string; reservation: string }>(
      `select user_id as user, reservation_id as reservation from waiting_tickets
       where campaign_id = $1 and status = 'waiting' and ($3::text is null or user_id > $3)
         and ($4::int is null or redemption_bucket(reservation_id) = $4)
       order by user_id limit $2`,
      { batch, bucket, keyOf: ({ user }) => user },
    );
  }

  #pages<Row extends object>(
    sql: string,
    { bucket, ...pages }: { batch: number; bucket: number | null; keyOf: (row: Row) => string },
  ): AsyncGenerator<readonly Row[]> {
    const { cursor, campaign } = this;
    return pagesOf<Row>(cursor.database, sql, { campaignId: campaign.id, after: null, ...pages }, [bucket]);
  }

  /** Reads rows and the cursor as of one moment. */
  async #withCursor<Row extends object>(sql: string, values: unknown[]): Promise<{ cursor: string; rows: Row[] }> {
    const { database, shard } = this.cursor;
    const { rows } = await database.query<Row & { cursor: string; found: boolean }>(
      `select j.last_id as cursor, n.* from journal_cursor j left join (select true as found, f.* from (${sql}) f) n on true
       where j.shard = $1`,
      [shard, this.campaign.id, ...values],
    );
    const [row] = rows;
    if (!row) throw new Error('journal_cursor has lost its row');
    return { cursor: row.cursor, rows: rows.filter(({ found }) => found) };
  }
}
