import {
  type CampaignLimits,
  type CampaignPolicy,
  DEFAULT_ACCOUNTS_PER_ADDRESS,
  DEFAULT_ACCOUNTS_PER_DEVICE,
  REQUIRED_FIELDS,
  type RequiredField,
  RISK_MODES,
} from '../../../shared/domain/campaign-policy.js';

/** Limits of a campaign that does not set them. */
export type PolicyDefaults = Required<
  Pick<CampaignLimits, 'validatePerMinutePerUser' | 'redeemPerMinutePerUser' | 'redeemPerMinutePerAddress'>
>;

/** Limits that codes have, beside those with `ofEvery`; a new one has to be combined here. */
type CombinedLimit = Exclude<
  keyof CampaignLimits,
  RequiredField | 'checkoutPerMinutePerUser' | 'checkoutPerMinutePerAddress' | 'surgeAttemptsPerMinute' | 'unusualHours'
>;

const NONE: CampaignPolicy = {
  product: '',
  version: 0,
  risk: 'observe',
  timeZone: 'UTC',
  uniformRefusals: true,
  audience: null,
  checkoutUrl: null,
  extendSeconds: 0,
  closed: false,
  limits: {},
};

/**
 * Returns one policy for all campaigns with uniform refusals: the strictest mode and the strictest of each limit, with
 * the unusual hours and the time zone of the first campaign. It names no product, so that a challenge for a real code
 * equals one for an invented code.
 */
export function strictestOf(policies: readonly CampaignPolicy[], defaults: PolicyDefaults): CampaignPolicy {
  const [first] = policies;
  if (!first) return NONE;
  const limits = policies.map((policy) => policy.limits);
  const least = (values: readonly (number | null)[]) =>
    Math.min(...values.map((value) => value ?? Number.POSITIVE_INFINITY));
  const leastOrOff = (values: readonly (number | null)[]) => {
    const value = least(values);
    return value === Number.POSITIVE_INFINITY ? null : value;
  };
  const quota = (name: keyof PolicyDefaults) => least(limits.map((one) => one[name] ?? defaults[name]));
  const highest = (name: RequiredField | 'accountMinAgeHours') => Math.max(0, ...limits.map((one) => one[name] ?? 0));
  const { unusualHours } = first.limits;
  return {
    ...NONE,
    risk: RISK_MODES.findLast((mode) => policies.some(({ risk }) => risk === mode)) ?? 'observe',
    timeZone: first.timeZone,
    limits: {
      validatePerMinutePerUser: quota('validatePerMinutePerUser'),
      redeemPerMinutePerUser: quota('redeemPerMinutePerUser'),
      redeemPerMinutePerAddress: quota('redeemPerMinutePerAddress'),
      ...Object.fromEntries(REQUIRED_FIELDS.map((field) => [field, highest(field)])),
      accountsPerDevice: leastOrOff(
        limits.map(({ accountsPerDevice = DEFAULT_ACCOUNTS_PER_DEVICE }) => accountsPerDevice),
      ),
      accountsPerAddress: leastOrOff(
        limits.map(({ accountsPerAddress = DEFAULT_ACCOUNTS_PER_ADDRESS }) => accountsPerAddress),
      ),
      accountMinAgeHours: highest('accountMinAgeHours') || null,
      ...(unusualHours === undefined ? {} : { unusualHours }),
    } satisfies Record<CombinedLimit, unknown>,
  };
}
