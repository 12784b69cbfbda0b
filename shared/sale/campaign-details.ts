import type { Campaign } from '../domain/campaign.js';
import { type DetailTerms, detailTerms } from '../domain/terms.js';

/**
 * What no script needs of a campaign. Redis keeps it beside the terms, so that a Postgres that was set back gets the whole
 * campaign again.
 */
export type CampaignDetails = DetailTerms & Pick<Campaign, 'id' | 'code' | 'rules'>;

/** `<version of the terms>|<JSON>`: an earlier version of the project changes the terms and leaves the details. */
export function packDetails(campaign: Campaign): string {
  const { id, code, rules } = campaign;
  const details: CampaignDetails = { id, code, ...detailTerms(campaign), rules };
  return `${campaign.termsVersion}|${JSON.stringify(details)}`;
}

/** @returns null when these are not the details of this version of the terms */
export function detailsOf(text: string, version: number): CampaignDetails | null {
  const prefix = `${version}|`;
  return text.startsWith(prefix) ? (JSON.parse(text.slice(prefix.length)) as CampaignDetails) : null;
}
