import type { Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { to as copyTo } from 'pg-copy-streams';
import type { Code } from '../domain/codes.js';
import type { CampaignId, CampaignNo, UserId } from '../domain/ids.js';
import { ADVISORY_LOCKS } from './advisory-locks.js';
import type { Database, Queryable } from './pool.js';

export type FoundCode = {
  campaignId: CampaignId;
  campaignNo: CampaignNo;
  /** Number of the code in its campaign, from 1; 0 = the code of a shared campaign. */
  codeNo: number;
  /** The only user who may use the code; null = any user. */
  userId: UserId | null;
};
export type NewCode = { code: Code; codeNo: number; userId: string | null };
/** How far the numbered codes of each campaign have been read: campaign id → last number. */
export type CodeMarks = Map<string, number>;

const UUID = /^[0-9a-f-]{36}$/;

/**
 * Table `codes`, with every code that was ever issued, and table `code_series`, with the last number of each campaign.
 */
export class CodesTable {
  constructor(readonly database: Database) {}

  /** Finds issued codes with one prepared statement. @returns the issued ones among `codes`, by canonical code */
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
  async numbered(
    campaignNo: number,
    from: number,
    to: number,
    client: Queryable = this.database,
  ): Promise<Map<number, Code>> {
    const { rows } = await client.query<{ code: Code; code_no: number }>({
      name: 'codes.numbered',
      text: `select c.code, code_no from codes c join campaigns using (campaign_id)
        where no = $1 and code_no >= $2 and code_no < $3`,
      values: [campaignNo, from, to],
    });
    return new Map(rows.map(({ code, code_no }) => [code_no, code]));
  }

  /**
   * Lengths of the codes of campaigns with uniform refusals, closed campaigns included. Reads the first hundred codes
   * of each.
   */
  async uniformLengths(): Promise<number[]> {
    const { rows } = await this.database.query<{ length: number }>(
      `select distinct length(c.code) as length from campaigns join codes c using (campaign_id)
       where rules ->> 'uniform_refusals' = 'true' and code_no <= 100`,
    );
    return rows.map(({ length }) => length);
  }

  /** Takes the lock that must be held before codes are announced. The end of the transaction releases it. */
  async lockIssuing(client: Queryable): Promise<void> {
    await client.query(`select pg_advisory_xact_lock_shared(${ADVISORY_LOCKS.issuing})`);
  }

  /** Returns when every transaction that announced codes before this call has ended. */
  async waitForIssuers(): Promise<void> {
    await this.database.query(`select pg_advisory_xact_lock(${ADVISORY_LOCKS.issuing})`);
  }

  /** Locks the code numbers of a campaign until the end of the transaction. @returns the last number in use */
  async lockSeries(campaignId: string, client: Queryable): Promise<number> {
    await client.query('insert into code_series (campaign_id) values ($1) on conflict do nothing', [campaignId]);
    const { rows } = await client.query<{ last_no: number }>(
      'select last_no from code_series where campaign_id = $1 for update',
      [campaignId],
    );
    return rows[0]?.last_no ?? 0;
  }

  /** The last code number of a campaign. */
  async lastNo(campaignId: string, client: Queryable = this.database): Promise<number> {
    const { rows } = await client.query<{ last_no: number }>('select last_no from code_series where campaign_id = $1', [
      campaignId,
    ]);
    return rows[0]?.last_no ?? 0;
  }

  /**
   * Inserts codes with the next numbers of their campaign. The caller has called `lockSeries`.
   * @throws pg.DatabaseError 23505 when another campaign has issued one of the codes meanwhile; the caller must read
   *   again which codes exist
   */
  async insert(campaignId: string, codes: readonly NewCode[], client: Queryable): Promise<void> {
    if (codes.length === 0) return;
    // Inserted in the order of the index. So neighbours share pages, and two campaigns with the same codes wait for
    // each other instead of deadlocking.
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

  /** Issues the single code of a shared campaign. @returns false when the code has been issued before */
  async insertShared(campaignId: string, code: Code, client: Queryable): Promise<boolean> {
    const { rowCount } = await client.query(
      'insert into codes (code, campaign_id, code_no) values ($1, $2, 0) on conflict (code) do nothing',
      [code, campaignId],
    );
    return rowCount === 1;
  }

  /** How many numbered codes and shared codes exist, of all campaigns. */
  async count(client: Queryable = this.database): Promise<{ numbered: number; shared: number }> {
    const { rows } = await client.query<{ numbered: string; shared: string }>(
      `select (select coalesce(sum(last_no), 0) from code_series) as numbered,
         (select count(*) from codes where code_no = 0) as shared`,
    );
    return { numbered: Number(rows[0]?.numbered ?? 0), shared: Number(rows[0]?.shared ?? 0) };
  }

  /**
   * Reads every code after the marks by COPY, which costs a third of queries. A mark moves after the last code of a
   * range. Shared codes are always read, because they have no number.
   * @param range codes of one COPY
   * @param take gets them in parts of up to 64 KiB, the next one when it has ended; an error of it ends the reading
   */
  async readBeyond(marks: CodeMarks, range: number, take: (codes: string[]) => Promise<void>): Promise<void> {
    await this.#copy('code_no = 0', take);
    const { rows: series } = await this.database.query<{ campaign_id: string; last_no: number }>(
      'select campaign_id, last_no from code_series where last_no > 0 order by campaign_id',
    );
    for (const { campaign_id, last_no } of series) {
      for (let from = marks.get(campaign_id) ?? 0; from < last_no; from += range) {
        const upTo = Math.min(from + range, last_no);
        await this.#copy(`${isCampaign(campaign_id)} and code_no > ${from} and code_no <= ${upTo}`, take);
        marks.set(campaign_id, upTo);
      }
    }
  }

  async #copy(which: string, take: (codes: string[]) => Promise<void>): Promise<void> {
    await this.database.withClient(async (client) => {
      let rest = '';
      for await (const chunk of client.query(copyTo(`copy (select code from codes where ${which}) to stdout`))) {
        const lines = (rest + (chunk as Buffer).toString('latin1')).split('\n');
        rest = lines.pop() ?? '';
        await take(lines);
      }
    });
  }

  /**
   * Writes all codes of a campaign as CSV, `code,user_id`, in the order of their numbers. Reads from Postgres only as
   * fast as the destination accepts data. A user id that a spreadsheet would treat as a formula gets an apostrophe, as
   * `escape_formulas` of other CSV files has it; an import removes it.
   * @param begin called when Postgres has responded and before anything is written
   */
  async exportTo(campaignId: string, destination: Writable, begin: () => void): Promise<void> {
    const which = isCampaign(campaignId);
    await this.database.withClient(async (client) => {
      begin();
      const rows = client.query(
        copyTo(
          `copy (select code, regexp_replace(user_id, '^(?=[-@])', '''') as user_id from codes
             where ${which} order by code_no) to stdout (format csv, header)`,
        ),
      );
      await pipeline(rows, destination);
    });
  }
}

/** A condition for COPY, which takes no parameters. */
function isCampaign(id: string): string {
  if (!UUID.test(id)) throw new Error('this is not a campaign id');
  return `campaign_id = '${id}'`;
}
