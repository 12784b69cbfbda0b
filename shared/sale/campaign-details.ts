import type { Campaign } from '../domain/campaign.js';

/**
 * What no script needs of a campaign. Redis keeps it beside the terms, so that a Postgres that was set back gets the whole
 * campaign again.
 */
export type CampaignDetails = Pick<Campaign, 'id' | 'name' | 'code' | 'timeZone' | 'discount' | 'rules'>;

/** `<version of the terms>|<JSON>`: an earlier version of the project changes the terms and leaves the details. */
export function packDetails({ id, name, code, timeZone, discount, rules, termsVersion }: Campaign): string {
  const details: CampaignDetails = { id, name, code, timeZone, discount, rules };
  return `${termsVersion}|${JSON.stringify(details)}`;
}

/** @returns null when these are not the details of this version of the terms */
export function detailsOf(text: string, version: number): CampaignDetails | null {
  const prefix = `${version}|`;
  return text.startsWith(prefix) ? (JSON.parse(text.slice(prefix.length)) as CampaignDetails) : null;
}
