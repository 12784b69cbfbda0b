import type { CampaignStatus } from '../domain/campaign.js';
import { normaliseCode } from '../domain/codes.js';
import { type FieldTerms, termColumns } from '../domain/terms.js';
import type { Queryable } from '../postgres/pool.js';
import type { CampaignDetails } from '../sale/packed-terms.js';

/** The row of a campaign in Postgres: the columns that Redis has too. */
export type CampaignRow = {
  id: string;
  no: number;
  product: string;
  status: CampaignStatus;
  /** null = unlimited */
  total: number | null;
  version: number;
  /** Number of issued codes. */
  codes: number;
  held: number;
  redeemed: number;
  burned: number;
  /** Number of its reservations, in every state. */
  reservations: number;
};

/** The terms of a campaign that Redis has too. */
export type KnownTerms = {
  no: number;
  product: string;
  type: string;
  status: CampaignStatus;
  version: number;
  terms: FieldTerms;
  details: CampaignDetails;
  codes: number;
  total: number | null;
};

/** Repairs campaigns of a Postgres that was set back, in the caller's transaction. */
export class RestoredCampaigns {
  constructor(readonly client: Queryable) {}

  /** All campaigns by their numbers. */
  async all(): Promise<CampaignRow[]> {
    const { rows } = await this.client.query<CampaignRow>(
      `select campaign_id as id, no, product_id as product, status, total_limit::float8 as total, terms_version as version,
         coalesce((select last_no from code_series s where s.campaign_id = c.campaign_id), 0) as codes,
         held::float8 as held, redeemed::float8 as redeemed, burned::float8 as burned, reservations::float8 as reservations
       from campaigns c order by no`,
    );
    return rows;
  }

  /**
   * Creates a campaign again with its number. The trigger on `campaigns` writes its terms.
   * @param shard that has it; null = there is one shard
   */
  async create(terms: KnownTerms, shard: number | null): Promise<void> {
    const { details } = terms;
    const columns = termColumns({ ...details, ...terms.terms });
    await this.client.query(
      `insert into campaigns (campaign_id, no, product_id, type, total_limit, status, rules, code, terms_version, shard,
         ${columns.map(({ column }) => column).join(', ')})
       overriding system value
       values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, ${columns.map((_, i) => `$${i + 11}`).join(', ')})`,
      [
        details.id,
        terms.no,
        terms.product,
        terms.type,
        terms.total,
        terms.status,
        JSON.stringify(details.rules),
        details.code,
        terms.version,
        shard,
        ...columns.map(({ value }) => value),
      ],
    );
    await this.#issueCode(details.id, details.code);
    await raiseSequence(this.client, 'campaigns', 'no', terms.no);
  }

  /** Issues the code of a shared campaign. */
  async #issueCode(campaignId: string, typed: string | null): Promise<void> {
    const code = normaliseCode(typed ?? '');
    if (code.kind !== 'code') return;
    await this.client.query(
      'insert into codes (code, campaign_id, code_no) values ($1, $2, 0) on conflict (code) do nothing',
      [code.code, campaignId],
    );
  }

  /** Adds each missing version with the current terms of Redis. Intermediate terms are lost. */
  async raiseTerms(row: Pick<CampaignRow, 'no' | 'version'>, terms: KnownTerms): Promise<void> {
    const { details } = terms;
    const columns = termColumns({ ...details, ...terms.terms });
    for (let version = row.version + 1; version <= terms.version; version += 1) {
      await this.client.query(
        `update campaigns set terms_version = $2, updated_at = now(),
           rules = $3, ${columns.map(({ column }, i) => `${column} = $${i + 4}`).join(', ')}
         where no = $1 and terms_version = $2 - 1`,
        [row.no, version, JSON.stringify(details.rules), ...columns.map(({ value }) => value)],
      );
    }
  }

  async setTotal(no: number, total: number | null): Promise<void> {
    await this.client.query('update campaigns set total_limit = $2, updated_at = now() where no = $1', [no, total]);
  }

  /** Moves `starts_at` of a sale that was opened before its start time. */
  async setBeginning(no: number, startsAtMs: number): Promise<void> {
    await this.client.query('update campaigns set starts_at = least(starts_at, ms($2)) where no = $1', [
      no,
      startsAtMs,
    ]);
  }

  /** Raises the last code number of a campaign, so that no number is used twice. */
  async raiseCodes(no: number, codes: number): Promise<void> {
    await this.client.query(
      `insert into code_series (campaign_id, last_no) select campaign_id, $2 from campaigns where no = $1
       on conflict (campaign_id) do update set last_no = greatest(code_series.last_no, excluded.last_no)`,
      [no, codes],
    );
  }
}

/** Makes the sequence of a column continue after `to`, if it has not passed that number. */
export async function raiseSequence(client: Queryable, table: string, column: string, to: number): Promise<void> {
  await client.query(
    `select setval(name, $3) from (select pg_get_serial_sequence($1, $2)::regclass as name) s
       where coalesce(pg_sequence_last_value(name), 0) < $3::bigint`,
    [table, column, to],
  );
}
