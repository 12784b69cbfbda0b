import type { Attributes } from '../../shared/domain/audience.js';
import { type AudienceRule, matchesAudience } from '../../shared/domain/audience.js';
import { Problem } from '../../shared/errors/catalogue.js';
import { TermsChanged } from './claim.js';

/** The part of a campaign's terms that decides who may claim a unit. */
export type JudgedTerms = { version: number; audience: AudienceRule | null };

/** Maximum number of evaluations for one request while the terms keep changing. Then the request gets 503. */
const MAX_JUDGEMENTS = 5;

/**
 * Evaluates the audience of a campaign for a user and claims. The script compares the version of the terms with the one
 * in force, so a changed audience is evaluated again. An excluded user also reaches the script, because a replay
 * returns the first response whatever the current terms are.
 * @param first cached terms
 * @param renew returns the terms of the version in force, or the previous ones while these are not committed
 * @param claim claims under these terms; its second argument goes to the script (`ReserveInput.terms`)
 * @throws Problem 503 if the terms have changed five times; errors of `renew` and `claim`
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
  throw new Problem('temporarily_unavailable', 'The terms of the campaign are being changed.', {
    retryAfterSeconds: 1,
  });
}

/** Returns the version of the terms, negative if the audience excludes the user. */
export function judgementOf({ version, audience }: JudgedTerms, attributes: Attributes): number {
  return audience === null || matchesAudience(audience, attributes) ? version : -version;
}
