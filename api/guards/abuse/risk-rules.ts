import {
  type CampaignLimits,
  DEFAULT_ACCOUNTS_PER_ADDRESS,
  DEFAULT_ACCOUNTS_PER_DEVICE,
  type HourSpan,
} from '../../../shared/domain/campaign-policy.js';

/** What is known of an attempt when the rules judge it; null = not known, and then no rule goes by it. */
export type Signals = {
  /** Users seen on its device in a day, this one included. */
  accountsOnDevice: number | null;
  accountsInNetwork: number | null;
  accountAgeHours: number | null;
  /** Hour of the day in the campaign's zone. */
  hour: number;
};

export type RuleVerdict = 'challenge' | 'block';
type Rule = {
  verdict: RuleVerdict;
  /** Why the rule applies; null = it does not. */
  reason: (signals: Signals, limits: CampaignLimits) => string | null;
};

/**
 * Users who were promised something on one device in a day, more than a household, a shop counter or a school has. The device works for
 * each further attempt, also where rules only observe.
 */
export const DEVICE_FARM_ACCOUNTS = 60;
const DEFAULT_UNUSUAL_HOURS: HourSpan = { from: 3, to: 5 };

/** Signal → verdict. A block weighs more than a challenge; whatever no rule minds is allowed. */
export const RISK_RULES = {
  accounts_per_device: {
    verdict: 'block',
    reason: ({ accountsOnDevice }, { accountsPerDevice = DEFAULT_ACCOUNTS_PER_DEVICE }) =>
      atLeast(accountsOnDevice, accountsPerDevice, 'accounts on one device'),
  },
  accounts_per_address: {
    verdict: 'challenge',
    reason: ({ accountsInNetwork }, { accountsPerAddress = DEFAULT_ACCOUNTS_PER_ADDRESS }) =>
      atLeast(
        accountsInNetwork,
        accountsPerAddress === null ? null : accountsPerAddress + 1,
        'accounts in one network',
      ),
  },
  account_age: {
    verdict: 'challenge',
    reason: ({ accountAgeHours }, { accountMinAgeHours = null }) =>
      accountMinAgeHours !== null && accountAgeHours !== null && accountAgeHours < accountMinAgeHours
        ? `an account of ${Math.floor(accountAgeHours)} hours`
        : null,
  },
  unusual_hours: {
    verdict: 'challenge',
    reason: ({ hour }, { unusualHours = DEFAULT_UNUSUAL_HOURS }) =>
      unusualHours !== null && isWithin(hour, unusualHours) ? `at ${hour} o’clock` : null,
  },
} as const satisfies Record<string, Rule>;
export type RuleName = keyof typeof RISK_RULES;

export type Finding = { rule: RuleName; verdict: RuleVerdict; reason: string };

/** Every rule that applies, blocks first. */
export function judge(signals: Signals, limits: CampaignLimits): Finding[] {
  const findings: Finding[] = [];
  for (const [name, rule] of RULES) {
    const reason = rule.reason(signals, limits);
    if (reason !== null) findings.push({ rule: name, verdict: rule.verdict, reason });
  }
  return findings;
}

const RULES = (Object.entries(RISK_RULES) as [RuleName, Rule][]).sort(
  ([, a], [, b]) => Number(b.verdict === 'block') - Number(a.verdict === 'block'),
);

function atLeast(count: number | null, limit: number | null, what: string): string | null {
  return count !== null && limit !== null && count >= limit ? `${count} ${what}` : null;
}

function isWithin(hour: number, { from, to }: HourSpan): boolean {
  return from < to ? hour >= from && hour < to : hour >= from || hour < to;
}
