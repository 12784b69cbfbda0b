import type { CampaignLimits, CampaignPolicy } from '../../../shared/domain/campaign-policy.js';
import { type ErrorCode, Problem } from '../../../shared/errors/catalogue.js';

/** Error codes of what a campaign requires of a person, in each claim and in each check of a code. */
export const REQUIREMENT_CODES = [
  'challenge_required',
  'verification_required',
] as const satisfies readonly ErrorCode[];

/** Whether a campaign requires something of every claim, with each value of `risk`. */
export const requiresOfEvery = ({ attestationLevel, identityLevel }: CampaignLimits): boolean =>
  Boolean(attestationLevel || identityLevel);

/**
 * Requires of a person what the campaign requires of everybody. A check of a code requires the same as its redemption.
 * @param level of the identity that the shop has signed; 0 = none
 * @throws Problem 403
 */
export function requireOfPerson({ limits }: CampaignPolicy, { level }: { level: number }): void {
  if (level < (limits.identityLevel ?? 0))
    throw new Problem('verification_required', 'This campaign is for persons whom the shop has verified.');
}
