import type { Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { to as copyTo } from 'pg-copy-streams';
import type { Code } from '../domain/codes.js';
import type { CampaignId, CampaignNo, UserId } from '../domain/ids.js';
import type { Database, Queryable } from './pool.js';

export type FoundCode = {
  campaignId: CampaignId;
  campaignNo: CampaignNo;
  /** Number within the campaign, from 1; 0 = the code of a shared campaign. */
  codeNo: number;
  /** The only user who may use it; null = any user. */
  userId: UserId | null;
};
export type NewCode = { code: Code; codeNo: number; userId: string | null };
/** How far the numbered codes of each campaign have been read: campaign id → last number. */
export type CodeMarks = Map<string, number>;

/** Advisory lock: shared from before codes are announced until their commit, exclusive by who waits for all of those. */
const ISSUING_LOCK = 7_102_003;
const UUID = /^[0-9a-f-]{36}$/;

/** Table `codes`: every code that was ever issued, of all campaigns, and `code_series`, the last number of each. */
export class CodesTable {
  constructor(readonly database: Database) {}

  /** @returns those that were issued, by canonical code. One prepared statement, however many are asked for. */
  async find(codes: readonly Code[], client: Queryable = this.database): Promise<ReadonlyMap<Code, FoundCode>> {
    const { rows } = await client.query<{
      code: Code;
      campaign_id: CampaignId;
      no: CampaignNo;
      code_no: number;
      user_id: UserId | null;
    }>({
      name: 'codes.find',
      text: `select c.code, c.campaign_id, no, code_no, user_id from codes c join campaigns using (campaign_id)
        where c.code = any($1::text[])`,
      values: [codes],
    });
    return new Map(
      rows.map(({ code, campaign_id, no, code_no, user_id }) => [
        code,
        { campaignId: campaign_id, campaignNo: no, codeNo: code_no, userId: user_id },
      ]),
    );
  }

  /** Codes of a campaign with numbers of `from` or more and below `to`. */
  async numbered(campaignNo: number, from: number, to: number): Promise<Map<number, Code>> {
    const { rows } = await this.database.query<{ code: Code; code_no: number }>({
      name: 'codes.numbered',
      text: `select c.code, code_no from codes c join campaigns using (campaign_id)
        where no = $1 and code_no >= $2 and code_no < $3`,
      values: [campaignNo, from, to],
    });
    return new Map(rows.map(({ code, code_no }) => [code_no, code]));
  }

  /** Lengths of codes of campaigns with uniform refusals, closed ones too, by the first hundred of each. */
  async uniformLengths(): Promise<number[]> {
    const { rows } = await this.database.query<{ length: number }>(
      `select distinct length(c.code) as length from campaigns join codes c using (campaign_id)
       where rules ->> 'uniform_refusals' = 'true' and code_no <= 100`,
    );
    return rows.map(({ length }) => length);
  }

  /** Must be held before codes are announced; freed by the end of the transaction. */
  async lockIssuing(client: Queryable): Promise<void> {
    await client.query(`select pg_advisory_xact_lock_shared(${ISSUING_LOCK})`);
  }

  /** Returns when every transaction that had announced codes before this call has ended. */
  async waitForIssuers(): Promise<void> {
    await this.database.query(`select pg_advisory_xact_lock(${ISSUING_LOCK})`);
  }

  /** Locks the numbering of a campaign until the end of the transaction. @returns the last number given */
  async lockSeries(campaignId: string, client: Queryable): Promise<number> {
    await client.query('insert into code_series (campaign_id) values ($1) on conflict do nothing', [campaignId]);
    const { rows } = await client.query<{ last_no: number }>(
      'select last_no from code_series where campaign_id = $1 for update',
      [campaignId],
    );
    return rows[0]?.last_no ?? 0;
  }

  /** The last number given in a campaign. */
  async lastNo(campaignId: string, client: Queryable = this.database): Promise<number> {
    const { rows } = await client.query<{ last_no: number }>('select last_no from code_series where campaign_id = $1', [
      campaignId,
    ]);
    return rows[0]?.last_no ?? 0;
  }

  /**
   * Writes codes with the next numbers of their campaign, under `lockSeries`.
   * @throws pg.DatabaseError 23505 when another campaign has issued one of them meanwhile: look again
   */
  async insert(campaignId: string, codes: readonly NewCode[], client: Queryable): Promise<void> {
    if (codes.length === 0) return;
    // In the order of the index: neighbours in a page, and two campaigns with the same codes wait instead of deadlocking.
    await client.query(
      `insert into codes (campaign_id, code, code_no, user_id)
       select $1, code, code_no, user_id from unnest($2::text[], $3::int[], $4::text[]) as t (code, code_no, user_id)
       order by code collate "C"`,
      [campaignId, codes.map(({ code }) => code), codes.map(({ codeNo }) => codeNo), codes.map(({ userId }) => userId)],
    );
    await client.query('update code_series set last_no = $2 where campaign_id = $1', [
      campaignId,
      codes.at(-1)?.codeNo,
    ]);
  }

  /** Issues the one code of a shared campaign. @returns false when it was issued before */
  async insertShared(campaignId: string, code: Code, client: Queryable): Promise<boolean> {
    const { rowCount } = await client.query(
      'insert into codes (code, campaign_id, code_no) values ($1, $2, 0) on conflict (code) do nothing',
      [code, campaignId],
    );
    return rowCount === 1;
  }

  /** Numbered codes of all campaigns, and shared codes. */
  async count(client: Queryable = this.database): Promise<{ numbered: number; shared: number }> {
    const { rows } = await client.query<{ numbered: string; shared: string }>(
      `select (select coalesce(sum(last_no), 0) from code_series) as numbered,
         (select count(*) from codes where code_no = 0) as shared`,
    );
    return { numbered: Number(rows[0]?.numbered ?? 0), shared: Number(rows[0]?.shared ?? 0) };
  }

  /**
   * Every code beyond the marks, which move with each page when the next one is asked for; shared codes always, since
   * they have no number. Pages come as one text, which costs a tenth of rows on both sides.
   */
  async *beyond(marks: CodeMarks, pageCodes: number): AsyncGenerator<string[]> {
    yield* this.#shared(pageCodes);
    const { rows: series } = await this.database.query<{ campaign_id: string; last_no: number }>(
      'select campaign_id, last_no from code_series where last_no > 0 order by campaign_id',
    );
    for (const { campaign_id, last_no } of series) {
      for (let from = marks.get(campaign_id) ?? 0; from < last_no; from += pageCodes) {
        const { rows } = await this.database.query<{ page: string | null }>(
          `select string_agg(code, ',') as page from codes where campaign_id = $1 and code_no > $2 and code_no <= $3`,
          [campaign_id, from, Math.min(from + pageCodes, last_no)],
        );
        yield rows[0]?.page?.split(',') ?? [];
        marks.set(campaign_id, Math.min(from + pageCodes, last_no));
      }
    }
  }

  async *#shared(pageCodes: number): AsyncGenerator<string[]> {
    let after = '';
    for (;;) {
      const { rows } = await this.database.query<{ code: string }>(
        'select code from codes where code_no = 0 and code > $1 order by code limit $2',
        [after, pageCodes],
      );
      yield rows.map(({ code }) => code);
      if (rows.length < pageCodes) return;
      after = rows.at(-1)?.code ?? '';
    }
  }

  /**
   * Writes all codes of a campaign as CSV, `code,user_id`, in the order of their numbers; Postgres is read only as fast as
   * the destination takes it.
   * @param begin called when Postgres is there and nothing has been written
   */
  async exportTo(campaignId: string, destination: Writable, begin: () => void): Promise<void> {
    if (!UUID.test(campaignId)) throw new Error('COPY takes no parameters, and this is no campaign id');
    await this.database.withClient(async (client) => {
      await client.query('select 1');
      begin();
      const rows = client.query(
        copyTo(
          `copy (select code, user_id from codes where campaign_id = '${campaignId}' order by code_no) to stdout (format csv, header)`,
        ),
      );
      await pipeline(rows, destination);
    });
  }
}
