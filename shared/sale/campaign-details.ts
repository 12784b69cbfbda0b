import type { Campaign } from '../domain/campaign.js';
import { type DetailTerms, detailTerms } from '../domain/terms.js';

/**
 * The part of a campaign that no script needs. Redis stores it with the terms, so that a Postgres that was set back can
 * restore the whole campaign.
 */
export type CampaignDetails = DetailTerms & Pick<Campaign, 'id' | 'code' | 'rules'>;

/**
 * Returns `<version of the terms>|<JSON>`. The version is needed because an earlier version of the project updates the
 * terms without the details.
 */
export function packDetails(campaign: Campaign): string {
  const { id, code, rules } = campaign;
  const details: CampaignDetails = { id, code, ...detailTerms(campaign), rules };
  return `${campaign.termsVersion}|${JSON.stringify(details)}`;
}

/** Reads details. @returns null when they belong to another version of the terms */
export function detailsOf(text: string, version: number): CampaignDetails | null {
  const prefix = `${version}|`;
  return text.startsWith(prefix) ? (JSON.parse(text.slice(prefix.length)) as CampaignDetails) : null;
}
