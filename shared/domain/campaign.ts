import type { CampaignId, CampaignNo, ProductId } from './ids.js';
import type { CampaignTerms } from './terms.js';

export const CAMPAIGN_TYPES = ['shared', 'unique', 'pool'] as const;
export const CAMPAIGN_STATUSES = ['draft', 'scheduled', 'open', 'paused', 'closed'] as const;
/** Maximum units of one campaign: it fits into an integer column of Postgres. */
export const MAX_UNITS = 2_000_000_000;
export type CampaignType = (typeof CAMPAIGN_TYPES)[number];
export type CampaignStatus = (typeof CAMPAIGN_STATUSES)[number];

/** Rules that no script needs, such as audience and risk, in the form of the API. */
export type CampaignRules = Record<string, unknown>;

/** A campaign in Postgres. Redis decides status and total, and the journal copies them here. */
export type Campaign = CampaignTerms & {
  id: CampaignId;
  no: CampaignNo;
  productId: ProductId;
  type: CampaignType;
  code: string | null;
  /** null = unlimited */
  totalLimit: number | null;
  status: CampaignStatus;
  /** Parts of the stock, each in another shard (docs/buckets.md); 1 = not divided */
  buckets: number;
  rules: CampaignRules;
  termsVersion: number;
  /** Redeeming needs a one-time token. */
  requireToken: boolean;
  /** Whether only some users may take a unit. The rule itself is in `rules`. */
  hasAudience: boolean;
  /** How its codes combine with others on the same order, packed (packStacking). */
  stacking: string;
  /** Codes issued so far, without the single code of a shared campaign. */
  codes: number;
  createdAt: Date;
  updatedAt: Date;
};

/** A campaign with the terms of a version that is over. `until`: when the next version came into force, ms */
export type FormerVersion = { campaign: Campaign; until: number };

/** Former versions of its terms that Redis keeps of a campaign. */
export const FORMER_KEPT = 20;

/** The counters of a campaign, read at one moment. `free` and `total` are null when the stock is unlimited. */
export type Stock = {
  status: CampaignStatus;
  total: number | null;
  free: number | null;
  held: number;
  redeemed: number;
  burned: number;
  waiting: number;
};

/** A bucket of a divided campaign, for writing it to Redis. */
export type BucketPart = {
  bucket: number;
  /** null = unlimited */
  total: number | null;
  /** Whether its units go to the line only. */
  sealed: boolean;
  /** Number of the last transfer that left it. */
  movedOut: number;
  /** For each other bucket, the number of the last transfer that arrived from there. */
  arrived: Readonly<Record<string, number>>;
  /** The transfers that it gave last: those that may be on their way, and the last one to each bucket. */
  gave: readonly GivenTransfer[];
  /** Codes of a pool that the bucket may give or has given; undefined = none are known yet. */
  ownCodes?: number;
};

/**
 * A transfer that a bucket gave: its number there, the bucket that gets it, units, and the numbers of codes with commas
 * between them (null or missing = none).
 */
export type GivenTransfer = readonly [out: number, to: number, units: number, codes?: string | null];
