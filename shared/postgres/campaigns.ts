import { uuidv7 } from 'uuidv7';
import { campaignOfNumber } from '../domain/buckets.js';
import type { Campaign, CampaignRules, CampaignStatus, CampaignType } from '../domain/campaign.js';
import type { CampaignId, CampaignNo, ProductId } from '../domain/ids.js';
import { COMBINES, packStacking, type Stacking } from '../domain/stacking.js';
import { type CampaignTerms, type StoredTerms, termColumns, termsOf } from '../domain/terms.js';
import { type CampaignFilter, campaignPage } from './campaign-list.js';
import type { Database, Queryable } from './pool.js';

export type NewCampaign = CampaignTerms & {
  productId: ProductId;
  type: CampaignType;
  code: string | null;
  totalLimit: number | null;
  status: CampaignStatus;
  buckets: number;
  rules: CampaignRules;
};

/** Units of a campaign by state, and the number of its reservations. Triggers maintain them. */
export type RowCounters = { held: number; redeemed: number; burned: number; reservations: number };

/**
 * `redemptionsDroppedAt`: when the rows of its reservations were dropped; null = they are there. `recordsLost`: it is
 * archived, and Postgres has lost records of it. `shard`: where it was put; null = in the one of its hash (ShardMap).
 */
export type StoredCampaign = Campaign &
  RowCounters & { redemptionsDroppedAt: Date | null; recordsLost: boolean; hidden: boolean; shard: number | null };

type Row = StoredTerms & {
  campaign_id: string;
  no: number;
  product_id: string;
  type: CampaignType;
  code: string | null;
  /** bigint, which node-postgres returns as text; so are the counters. */
  total_limit: string | null;
  held: string;
  redeemed: string;
  burned: string;
  reservations: string;
  redemptions_dropped_at: Date | null;
  records_lost_at: Date | null;
  hidden_at: Date | null;
  rules: CampaignRules;
  status: CampaignStatus;
  buckets: number;
  shard: number | null;
  terms_version: number;
  codes: number;
  created_at: Date;
  updated_at: Date;
};

const COLUMNS = `c.*, coalesce((select last_no from code_series s where s.campaign_id = c.campaign_id), 0) as codes`;

/**
 * Table `campaigns`. This class changes terms; status and total follow the journal
 * (shared/projection/write-projection.ts).
 */
export class CampaignsTable {
  constructor(readonly database: Database) {}

  /** @returns null when the product has a campaign already */
  async insert(campaign: NewCampaign, client: Queryable = this.database): Promise<StoredCampaign | null> {
    const terms = termColumns(campaign);
    const { rows } = await client.query<Row>(
      `insert into campaigns (campaign_id, product_id, type, code, total_limit, status, rules, buckets,
         ${terms.map(({ column }) => column).join(', ')})
       values ($1, $2, $3, $4, $5, $6, $7, $8, ${terms.map((_, i) => `$${i + 9}`).join(', ')})
       on conflict (product_id) do nothing returning *, 0 as codes`,
      [
        uuidv7(),
        campaign.productId,
        campaign.type,
        campaign.code,
        campaign.totalLimit,
        campaign.status,
        JSON.stringify(campaign.rules),
        campaign.buckets,
        ...terms.map(({ value }) => value),
      ],
    );
    return rows[0] ? fromRow(rows[0]) : null;
  }

  /** Notes the decision of an operator that the records of an archived campaign that are left count. */
  async acceptLoss(id: CampaignId): Promise<void> {
    await this.database.query('update campaigns set records_lost_at = null where campaign_id = $1', [id]);
  }

  /** A page of campaigns. @param cursor from `nextCursor` (campaign-list.ts); null = the first page */
  async list(filter: CampaignFilter, limit: number, cursor: number | null): Promise<StoredCampaign[]> {
    const { sql, values } = campaignPage(filter, limit, cursor);
    const { rows } = await this.database.query<Row>(`select ${COLUMNS} from campaigns c ${sql}`, values);
    return rows.map(fromRow);
  }

  /** Hides a campaign from the list, or lists it again. @returns null when it is so already */
  async hide(id: CampaignId, hidden: boolean, client: Queryable): Promise<StoredCampaign | null> {
    const { rows } = await client.query<Row>(
      `update campaigns c set hidden_at = case when $2 then now() end
       where campaign_id = $1 and (hidden_at is not null) <> $2 returning ${COLUMNS}`,
      [id, hidden],
    );
    return rows[0] ? fromRow(rows[0]) : null;
  }

  /** Finds a campaign by campaign id or product id, because operators use both. */
  async find(idOrProduct: string): Promise<StoredCampaign | null> {
    const isUuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(idOrProduct);
    const { rows } = await this.database.query<Row>(
      `select ${COLUMNS} from campaigns c where product_id = $1::text ${isUuid ? 'or campaign_id::text = lower($1::text)' : ''} limit 1`,
      [idOrProduct],
    );
    return rows[0] ? fromRow(rows[0]) : null;
  }

  /** @param no may name a bucket, as those of reservation ids */
  async findByNo(no: number): Promise<StoredCampaign | null> {
    const { rows } = await this.database.query<Row>(`select ${COLUMNS} from campaigns c where no = $1`, [
      campaignOfNumber(no),
    ]);
    return rows[0] ? fromRow(rows[0]) : null;
  }

  /** All campaigns that are not closed. */
  async live(): Promise<StoredCampaign[]> {
    const { rows } = await this.database.query<Row>(
      `select ${COLUMNS} from campaigns c where status <> 'closed' order by no`,
    );
    return rows.map(fromRow);
  }

  /** All campaigns, by number. */
  async toRestore(client: Queryable = this.database): Promise<StoredCampaign[]> {
    const { rows } = await client.query<Row>(`select ${COLUMNS} from campaigns c order by no`);
    return rows.map(fromRow);
  }

  /**
   * Changes the terms, if they are still those of `current`.
   * @param above a version of the terms; the new version is also later than this one
   * @returns null when the terms were changed meanwhile
   */
  async amend(
    current: StoredCampaign,
    terms: CampaignTerms,
    rules: CampaignRules,
    client: Queryable,
    above = 0,
  ): Promise<StoredCampaign | null> {
    const columns = termColumns(terms);
    const { rows } = await client.query<Row>(
      `update campaigns c set terms_version = greatest(terms_version, $4::int) + 1, updated_at = now(), rules = $3,
         ${columns.map(({ column }, i) => `${column} = $${i + 5}`).join(', ')}
       where campaign_id = $1 and terms_version = $2 returning ${COLUMNS}`,
      [current.id, current.termsVersion, JSON.stringify(rules), above, ...columns.map(({ value }) => value)],
    );
    return rows[0] ? fromRow(rows[0]) : null;
  }
}

function fromRow(row: Row): StoredCampaign {
  return {
    ...termsOf(row),
    id: row.campaign_id as CampaignId,
    no: row.no as CampaignNo,
    productId: row.product_id as ProductId,
    type: row.type,
    code: row.code,
    totalLimit: row.total_limit === null ? null : Number(row.total_limit),
    held: Number(row.held),
    redeemed: Number(row.redeemed),
    burned: Number(row.burned),
    reservations: Number(row.reservations),
    redemptionsDroppedAt: row.redemptions_dropped_at,
    recordsLost: Boolean(row.records_lost_at),
    hidden: row.hidden_at !== null,
    shard: row.shard,
    rules: row.rules,
    status: row.status,
    buckets: row.buckets,
    termsVersion: row.terms_version,
    requireToken: row.rules.require_token === true,
    hasAudience: (row.rules.audience ?? null) !== null,
    stacking: row.rules.stacking ? packStacking(row.rules.stacking as Stacking) : COMBINES,
    codes: row.codes,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}
