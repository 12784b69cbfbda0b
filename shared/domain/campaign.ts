import type { CampaignId, CampaignNo, ProductId } from './ids.js';
import type { CampaignTerms } from './terms.js';

export const CAMPAIGN_TYPES = ['shared', 'unique', 'pool'] as const;
export const CAMPAIGN_STATUSES = ['draft', 'scheduled', 'open', 'paused', 'closed'] as const;
/** Units of one campaign: what a column of Postgres holds, with room for a sum. */
export const MAX_UNITS = 2_000_000_000;
export type CampaignType = (typeof CAMPAIGN_TYPES)[number];
export type CampaignStatus = (typeof CAMPAIGN_STATUSES)[number];

/** Terms that no script needs: audience, risk and the like, as the API takes them. */
export type CampaignRules = Record<string, unknown>;

/** A campaign as Postgres has it. Status and total are decided in Redis and follow here through the journal. */
export type Campaign = CampaignTerms & {
  id: CampaignId;
  no: CampaignNo;
  productId: ProductId;
  type: CampaignType;
  code: string | null;
  /** null = unlimited */
  totalLimit: number | null;
  status: CampaignStatus;
  rules: CampaignRules;
  termsVersion: number;
  /** Redeeming needs a one-time token. */
  requireToken: boolean;
  /** Not everybody may take a unit; the rule itself is in the terms. */
  hasAudience: boolean;
  /** What it says of others on the same order, packed (packStacking). */
  stacking: string;
  /** Codes issued so far, beside the one of a shared campaign. */
  codes: number;
  createdAt: Date;
  updatedAt: Date;
};

/** One consistent reading of a campaign's counters; `free` and `total` are null when the stock is unlimited. */
export type Stock = {
  status: CampaignStatus;
  total: number | null;
  free: number | null;
  held: number;
  redeemed: number;
  burned: number;
  waiting: number;
};
