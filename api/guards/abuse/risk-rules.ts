import {
  type CampaignLimits,
  DEFAULT_ACCOUNTS_PER_ADDRESS,
  DEFAULT_ACCOUNTS_PER_DEVICE,
  type HourSpan,
} from '../../../shared/domain/campaign-policy.js';

/** Input of the rules; null = unknown, so that no rule applies. */
export type Signals = {
  /** Number of users on the device within a day, including this one. */
  accountsOnDevice: number | null;
  accountsInNetwork: number | null;
  accountAgeHours: number | null;
  /** Hour of the day in the campaign's time zone. */
  hour: number;
};

export type RuleVerdict = 'challenge' | 'block';
type Rule = {
  verdict: RuleVerdict;
  /** What a strict campaign asks for: a person, if there is a provider, or the hardest work. Default: ordinary work. */
  strictly?: 'person' | 'hard work';
  /** Why the rule applies; null = it does not. */
  reason: (signals: Signals, limits: CampaignLimits) => string | null;
};

/**
 * Number of users per day who get a unit or a place on one device: more than in a household, at a shop counter or in a
 * school. From then on each attempt of the device needs a proof of work, even if the rules only observe.
 */
export const DEVICE_FARM_ACCOUNTS = 60;
const DEFAULT_UNUSUAL_HOURS: HourSpan = { from: 3, to: 5 };

/** The rules and their verdicts. A block overrides a challenge; an attempt to which no rule applies is allowed. */
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
    strictly: 'person',
    reason: ({ accountAgeHours }, { accountMinAgeHours = null }) =>
      accountMinAgeHours !== null && accountAgeHours !== null && accountAgeHours < accountMinAgeHours
        ? `an account of ${Math.floor(accountAgeHours)} hours`
        : null,
  },
  unusual_hours: {
    verdict: 'challenge',
    strictly: 'hard work',
    reason: ({ hour }, { unusualHours = DEFAULT_UNUSUAL_HOURS }) =>
      unusualHours !== null && isWithin(hour, unusualHours) ? `at ${hour} o’clock` : null,
  },
} as const satisfies Record<string, Rule>;
export type RuleName = keyof typeof RISK_RULES;

export type Finding = { rule: RuleName; verdict: RuleVerdict; strictly: Rule['strictly']; reason: string };

/** Returns every rule that applies, blocks first. */
export function judge(signals: Signals, limits: CampaignLimits): Finding[] {
  const findings: Finding[] = [];
  for (const [name, rule] of RULES) {
    const reason = rule.reason(signals, limits);
    if (reason !== null) findings.push({ rule: name, verdict: rule.verdict, strictly: rule.strictly, reason });
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
