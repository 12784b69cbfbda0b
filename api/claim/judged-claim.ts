import type { Attributes } from '../../shared/domain/audience.js';
import { type AudienceRule, matchesAudience } from '../../shared/domain/audience.js';
import { Problem } from '../../shared/errors/catalogue.js';
import { TermsChanged } from './claim.js';

/** What of a campaign's terms says who may take a unit. */
export type JudgedTerms = { version: number; audience: AudienceRule | null };

/** Judgements of one request while the terms change again and again; then it may come again. */
const MAX_JUDGEMENTS = 5;

/**
 * Judges a user by a campaign's audience and claims. The script compares the version of the terms with the one in force,
 * so an audience that changes meanwhile is judged again. A user whom it excludes is claimed for as well, since a repeated
 * key gets its first response whatever the terms are now.
 * @param first the terms as this process knows them
 * @param renew the terms of the version that is in force; those of before when they cannot be had yet
 * @param claim claims under these terms; its second argument goes to the script (`ReserveInput.terms`)
 * @throws Problem 503 when the terms have changed five times; whatever `renew` and `claim` throw
 */
export async function judgedClaim<Terms extends JudgedTerms, Result>(
  first: Terms,
  attributes: Attributes,
  renew: (version: number, before: Terms) => Promise<Terms>,
  claim: (terms: Terms, judged: number) => Promise<Result>,
): Promise<Result> {
  let terms = first;
  for (let round = 0; round < MAX_JUDGEMENTS; round += 1) {
    try {
      return await claim(terms, judgementOf(terms, attributes));
    } catch (error) {
      if (!(error instanceof TermsChanged)) throw error;
      terms = await renew(error.version, terms);
    }
  }
  throw new Problem('temporarily_unavailable', 'The campaign is being changed.', { retryAfterSeconds: 1 });
}

/** The version of the terms, negative when their audience excludes the user. */
export function judgementOf({ version, audience }: JudgedTerms, attributes: Attributes): number {
  return audience === null || matchesAudience(audience, attributes) ? version : -version;
}
