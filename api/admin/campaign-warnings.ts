import { storedLimits, storedRisk } from '../../shared/domain/campaign-policy.js';
import type { CampaignData } from './campaign.contract.js';

/** What the configuration of the API offers to shoppers. */
export type Configured = {
  /** Whether shoppers prove who they are (`SHOPPER_IDENTITY`). */
  shoppersProve: boolean;
  /** Whether there is a provider of challenges that a person solves (`CHALLENGE_PROVIDER`). */
  personsSolve: boolean;
};

/** What a campaign does to honest users under this configuration, in words for its operator. */
export function campaignWarnings(
  { type, code, risk, limits }: CampaignData,
  { shoppersProve, personsSolve }: Configured,
): string[] {
  if (storedRisk(risk) !== 'strict' || shoppersProve || personsSolve) return [];
  const { checkoutPerMinutePerAddress = 0, redeemPerMinutePerAddress = 0 } = storedLimits(limits, 'strict');
  const hasCodes = type !== 'shared' || code !== null;
  const most = hasCodes
    ? Math.min(checkoutPerMinutePerAddress, redeemPerMinutePerAddress)
    : checkoutPerMinutePerAddress;
  return [
    `risk: strict blocks an address for an hour that sends more than ${most} claims in a minute, and shoppers cannot prove who they are ` +
      `(SHOPPER_IDENTITY=gateway) or solve a challenge (CHALLENGE_PROVIDER is not set). Of 500 users behind one address, such as that of a mobile carrier, about ${most} are served.`,
  ];
}
