import { type AudienceRule, storedAudience } from '../domain/audience.js';
import type { Branding } from '../domain/branding.js';
import type { CampaignType, FormerVersion } from '../domain/campaign.js';
import type { Discount } from '../domain/discount.js';
import type { CampaignId, ProductId } from '../domain/ids.js';
import type { Stacking } from '../domain/stacking.js';
import type { StoredCampaign } from './campaigns.js';
import type { Reads } from './circuit-breaker.js';
import type { Queryable } from './pool.js';

/** One version of a campaign's terms. A version never changes, so it may be cached. */
export type TermsVersion = {
  campaignId: CampaignId;
  productId: ProductId;
  type: CampaignType;
  version: number;
  /** When this version came into force. The version before it was valid until then. */
  validFrom: Date;
  name: string;
  discount: Discount | null;
  /** null = every user */
  audience: AudienceRule | null;
  stacking: Stacking;
  startsAt: Date;
  /** null = no end */
  endsAt: Date | null;
  timeZone: string;
  perUserLimit: number;
  holdSeconds: number;
  refundPolicy: 'return' | 'burn';
  uniformRefusals: boolean;
  requireToken: boolean;
  /** Template of the link by which shoppers pay (checkout-url.ts); null = none. */
  checkoutUrl: string | null;
  /** Of the current version, whichever version this is: nothing but the sale page depends on it. null = none */
  branding: Branding | null;
};

type Row = {
  campaign_id: string;
  product_id: string;
  type: CampaignType;
  version: number;
  valid_from: Date;
  name: string;
  discount: Discount | null;
  audience: unknown;
  stacking: Stacking;
  starts_at: Date;
  ends_at: Date | null;
  time_zone: string;
  per_user_limit: number;
  hold_seconds: number;
  refund_policy: 'return' | 'burn';
  uniform_refusals: boolean;
  require_token: boolean;
  checkout_url: string | null;
  branding: Branding | null;
};

/** Table `campaign_terms`. A trigger writes a row whenever a campaign gets a new version. */
export class CampaignTermsTable {
  constructor(readonly database: Reads) {}

  /** @returns null when the product has no campaign. @throws EngineUnavailable */
  async current(product: ProductId): Promise<TermsVersion | null> {
    return this.#one('c.product_id = $1 and t.version = c.terms_version', [product]);
  }

  /** @returns null when there is no such version. @throws EngineUnavailable */
  async ofProduct(product: ProductId, version: number): Promise<TermsVersion | null> {
    return this.#one('c.product_id = $1 and t.version = $2', [product, version]);
  }

  /** Callers name campaigns that exist, so what a replica lacks is worth a read of the primary. */
  async #one(condition: string, values: unknown[]): Promise<TermsVersion | null> {
    const sql = `select t.*, c.product_id, c.type, c.rules -> 'branding' as branding from campaign_terms t join campaigns c using (campaign_id) where ${condition}`;
    const { rows } = await this.database.query<Row>(sql, values);
    const row = rows[0] ?? (await this.database.latest?.query<Row>(sql, values))?.rows[0];
    return row ? fromRow(row) : null;
  }
}

function fromRow(row: Row): TermsVersion {
  return {
    campaignId: row.campaign_id as CampaignId,
    productId: row.product_id as ProductId,
    type: row.type,
    version: row.version,
    validFrom: row.valid_from,
    ...saleTermsOf(row),
    audience: storedAudience(row.audience),
    stacking: row.stacking,
    uniformRefusals: row.uniform_refusals,
    requireToken: row.require_token,
    checkoutUrl: row.checkout_url,
    branding: row.branding,
  };
}

/** What a version and a campaign have alike. */
function saleTermsOf(row: Omit<Row, 'product_id' | 'type' | 'branding'>) {
  return {
    name: row.name,
    discount: row.discount,
    startsAt: row.starts_at,
    endsAt: row.ends_at,
    timeZone: row.time_zone,
    perUserLimit: row.per_user_limit,
    holdSeconds: row.hold_seconds,
    refundPolicy: row.refund_policy,
  };
}

type FormerRow = Omit<Row, 'product_id' | 'type' | 'branding'> & {
  until: Date;
  price: { price?: number; currency?: string } | null;
};

const FORMER = `select t.*, n.valid_from as until,
    (select jsonb_strip_nulls(jsonb_build_object('price', p.amount, 'currency', p.currency)) from campaign_prices p
     where p.campaign_id = t.campaign_id and p.since <= t.valid_from order by p.since desc limit 1) as price
  from campaign_terms t cross join lateral (select valid_from from campaign_terms l
    where l.campaign_id = t.campaign_id and l.version > t.version order by l.version limit 1) n
  where t.campaign_id = $1 and t.version < $2 order by t.version desc limit $3`;

/**
 * Returns earlier versions of the terms of a campaign, the latest first. What no promise depends on is as in
 * `campaign`.
 * @throws EngineUnavailable
 */
export async function formerVersions(
  database: Queryable,
  campaign: StoredCampaign,
  most: number,
): Promise<FormerVersion[]> {
  if (campaign.termsVersion === 1) return [];
  const { rows } = await database.query<FormerRow>(FORMER, [campaign.id, campaign.termsVersion, most]);
  return rows.map((row) => ({ campaign: asOf(campaign, row), until: row.until.getTime() }));
}

function asOf(campaign: StoredCampaign, row: FormerRow): StoredCampaign {
  const {
    price: _price,
    currency: _currency,
    ...branding
  } = (campaign.rules.branding ?? {}) as Record<string, unknown>;
  const priced = { ...branding, ...row.price };
  return {
    ...campaign,
    termsVersion: row.version,
    ...saleTermsOf(row),
    rules: {
      ...campaign.rules,
      audience: row.audience,
      stacking: row.stacking,
      uniform_refusals: row.uniform_refusals,
      require_token: row.require_token,
      checkout_url: row.checkout_url,
      branding: Object.keys(priced).length > 0 ? priced : null,
    } as StoredCampaign['rules'],
  };
}
