import { type AudienceRule, storedAudience } from '../domain/audience.js';
import type { Branding } from '../domain/branding.js';
import type { CampaignType } from '../domain/campaign.js';
import type { Discount } from '../domain/discount.js';
import type { CampaignId, ProductId } from '../domain/ids.js';
import type { Stacking } from '../domain/stacking.js';
import type { Reads } from './circuit-breaker.js';

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
    name: row.name,
    discount: row.discount,
    audience: storedAudience(row.audience),
    stacking: row.stacking,
    startsAt: row.starts_at,
    endsAt: row.ends_at,
    timeZone: row.time_zone,
    perUserLimit: row.per_user_limit,
    holdSeconds: row.hold_seconds,
    refundPolicy: row.refund_policy,
    uniformRefusals: row.uniform_refusals,
    requireToken: row.require_token,
    checkoutUrl: row.checkout_url,
    branding: row.branding,
  };
}
