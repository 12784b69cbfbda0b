import { z } from 'zod';
import {
  type CampaignLimits,
  type CampaignPolicy,
  MAX_IDENTITY_LEVEL,
  REQUIRED_FIELDS,
} from '../../../shared/domain/campaign-policy.js';
import { type ErrorCode, Problem } from '../../../shared/errors/catalogue.js';

/** What a shop may sign of a person: members of a hand-over, claims of a JWT. */
export const PERSON_CLAIMS = {
  /** To what level the shop has verified the person; none = not at all. */
  identity_level: z.int().min(0).max(MAX_IDENTITY_LEVEL).optional(),
};
export type Person = z.infer<z.ZodObject<typeof PERSON_CLAIMS>>;

/** Reads the claims of a JWT. A login service may use a name for something else, so a wrong value counts as none. */
export const personIn = (claims: Readonly<Record<string, unknown>>): Person =>
  Object.fromEntries(Object.entries(PERSON_CLAIMS).map(([name, claim]) => [name, claim.safeParse(claims[name]).data]));

/** Whether the shop has verified the person. */
export const isVerified = ({ identity_level: level = 0 }: Person): boolean => level > 0;

/** Error codes of what a campaign requires of a person, in each claim and in each check of a code. */
export const REQUIREMENT_CODES = [
  'challenge_required',
  'verification_required',
] as const satisfies readonly ErrorCode[];

/** Whether a campaign requires something of every claim, with each value of `risk`. */
export const requiresOfEvery = (limits: CampaignLimits): boolean => REQUIRED_FIELDS.some((field) => limits[field]);

/**
 * Requires of a person what the campaign requires of everybody. A check of a code requires the same as its redemption.
 * @throws Problem 403
 */
export function requireOfPerson({ limits }: CampaignPolicy, { identity_level: level = 0 }: Person): void {
  if (level < (limits.identityLevel ?? 0))
    throw new Problem('verification_required', 'This campaign is for persons whom the shop has verified.');
}
