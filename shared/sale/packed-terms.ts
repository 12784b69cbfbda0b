import type { Campaign } from '../domain/campaign.js';
import { type DetailTerms, detailTerms, TEXT_FIELDS, termFields } from '../domain/terms.js';
import { storedOpeningMinutes, storedVelocity } from '../domain/velocity.js';

/**
 * The part of a campaign that no script needs. Redis stores it with the terms, so that a Postgres that was set back can
 * restore the whole campaign.
 */
export type CampaignDetails = DetailTerms & Pick<Campaign, 'id' | 'code' | 'rules'>;

/** The terms of a campaign as Redis stores them, each once: as text, as a field of its own, or in the details. */
export type PackedTerms = {
  /** Version and terms with `|` between them; lua/includes/campaign.lua reads it. */
  terms: string;
  /** A field of its own, because it changes when a sale is opened early. */
  starts_at: number;
  /** JSON */
  details: string;
};

export function packTerms(campaign: Campaign): PackedTerms {
  const { id, code, rules } = campaign;
  const { starts_at, ...fields } = {
    ...termFields(campaign),
    once: campaign.requireToken ? 1 : 0,
    open_to_all: campaign.hasAudience ? 0 : 1,
    stacking: campaign.stacking,
    type: campaign.type,
    velocity: storedVelocity(rules.velocity),
    opening_ms: storedOpeningMinutes(rules.opening_minutes) * 60_000,
  } as Record<string, string | number>;
  const details: CampaignDetails = { id, code, ...detailTerms(campaign), rules };
  return {
    terms: [campaign.termsVersion, ...TEXT_FIELDS.map(({ field }) => fields[field])].join('|'),
    starts_at: Number(starts_at),
    details: JSON.stringify(details),
  };
}

/** Takes the text of the terms apart. @returns name → value, with `version` */
export function unpackTerms(text: string): Record<string, string> {
  const [version = '', ...values] = text.split('|');
  return { version, ...Object.fromEntries(TEXT_FIELDS.map(({ field }, i) => [field, values[i] ?? ''])) };
}
