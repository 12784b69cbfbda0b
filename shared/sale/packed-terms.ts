import type { Campaign, FormerVersion } from '../domain/campaign.js';
import {
  type DetailTerms,
  detailTerms,
  type FieldTerms,
  TEXT_FIELDS,
  termFields,
  termsOfFields,
} from '../domain/terms.js';
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

/** A version of the terms, as Redis has it. */
export type TermsCopy = { version: number; terms: FieldTerms; details: CampaignDetails };

export function unpackVersion({ terms, starts_at, details }: Record<string, string>): TermsCopy {
  const fields = unpackTerms(terms ?? '');
  return {
    version: Number(fields.version),
    terms: termsOfFields({ ...fields, starts_at: starts_at ?? '' }),
    details: JSON.parse(details ?? '') as CampaignDetails,
  };
}

/** A version of the terms that is over. */
export type FormerTerms = TermsCopy & {
  /** When the next version came into force, ms. */
  until: number;
};

type StoredFormer = [terms: string, startsAt: string, details: string, until: number];

/** @param former the latest first. @returns JSON; "" = there are none */
export function packFormer(former: readonly FormerVersion[]): string {
  if (former.length === 0) return '';
  const stored = former.map(({ campaign, until }): StoredFormer => {
    const { terms, starts_at, details } = packTerms(campaign);
    return [terms, String(starts_at), details, until];
  });
  return JSON.stringify(stored);
}

/** Decodes the former terms of a campaign, the latest first. @param text undefined = none */
export function unpackFormer(text: string | undefined): FormerTerms[] {
  const former = JSON.parse(text ?? '[]') as StoredFormer[];
  return former.map(([terms, starts_at, details, until]) => ({
    ...unpackVersion({ terms, starts_at, details }),
    until,
  }));
}

/** Takes the text of the terms apart. @returns name → value, with `version` */
export function unpackTerms(text: string): Record<string, string> {
  const [version = '', ...values] = text.split('|');
  return { version, ...Object.fromEntries(TEXT_FIELDS.map(({ field }, i) => [field, values[i] ?? ''])) };
}
