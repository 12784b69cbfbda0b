import type { AudienceRule } from './audience.js';

export const RISK_MODES = ['off', 'observe', 'enforce', 'strict'] as const;
/**
 * How risk rules are applied, from the mildest. off: not evaluated · observe: evaluated, counted and logged, without an
 * effect on responses · enforce: verdicts decide · strict: as enforce, with the limits `STRICT_LIMITS` and with blocks
 * of addresses (docs/threats.md)
 */
export type RiskMode = (typeof RISK_MODES)[number];

/** Whether the verdicts of the risk rules decide. */
export const enforces = (risk: RiskMode): boolean => risk === 'enforce' || risk === 'strict';

/** Users per day on one device, and in one network, above which a risk rule applies. A campaign may override both. */
export const DEFAULT_ACCOUNTS_PER_DEVICE = 5;
export const DEFAULT_ACCOUNTS_PER_ADDRESS = 100;

/** 0: only the device's own claim · 1: a proof of work · 2: Apple or Google attest the app and the device */
export const ATTESTATION_LEVELS = [0, 1, 2] as const;
export type AttestationLevel = (typeof ATTESTATION_LEVELS)[number];

/** Highest level to which a shop can have verified a person (docs/identity.md); 0 = not at all. */
export const MAX_IDENTITY_LEVEL = 9;

/** Hours of the day in the campaign's time zone, `to` excluded. 22 to 5 spans midnight. */
export type HourSpan = { from: number; to: number };

/** Most seconds by which a reservation is extended. Without a setting it is by `hold_seconds`. */
export const MOST_EXTEND_SECONDS = 1_800;

/** By how many seconds a campaign extends a deadline. @param rule `extend_seconds` of its rules; undefined = not set */
export const storedExtendSeconds = (rule: unknown, holdSeconds: number): number =>
  typeof rule === 'number' ? rule : Math.min(holdSeconds, MOST_EXTEND_SECONDS);

/** The settings of one campaign that the guards apply. */
export type CampaignPolicy = {
  product: string;
  /** Version of the terms to which the policy belongs. */
  version: number;
  risk: RiskMode;
  timeZone: string;
  /** Whether refusals only report that a code cannot be used, without the reason. */
  uniformRefusals: boolean;
  limits: CampaignLimits;
  /** Who may take a unit; null = every user. */
  audience: AudienceRule | null;
  /** Template of the link by which shoppers pay (checkout-url.ts); null = none. */
  checkoutUrl: string | null;
  /** By how much the deadline of a reservation may be extended, seconds; 0 = not at all. */
  extendSeconds: number;
  /** Whether the campaign is closed. Its last reservations may still be paid, but the guards ignore it. */
  closed: boolean;
};

type Reader<Value> = (value: unknown) => Value | undefined;

const whole =
  (least: number, most: number): Reader<number> =>
  (value) =>
    typeof value === 'number' && Number.isInteger(value) && value >= least && value <= most ? value : undefined;
const orNull =
  <Value>(read: Reader<Value>): Reader<Value | null> =>
  (value) =>
    value === null ? null : read(value);
const hours: Reader<HourSpan> = (value) => {
  const { from, to } = (value ?? {}) as Record<string, unknown>;
  const [first, end] = [whole(0, 23)(from), whole(0, 24)(to)];
  return first === undefined || end === undefined || first === end ? undefined : { from: first, to: end };
};

/**
 * Limits that a campaign sets instead of the defaults: name in the contract → field, and the values that it accepts. A
 * stored value that is not accepted is ignored. `ofEvery`: a level of the device, or of the person as signed by a shop,
 * that every claim needs, whatever `risk` is; 0 = none.
 */
export const LIMIT_FIELDS = {
  validate_per_minute_per_user: { field: 'validatePerMinutePerUser', read: whole(1, 1_000_000) },
  redeem_per_minute_per_user: { field: 'redeemPerMinutePerUser', read: whole(1, 1_000_000) },
  checkout_per_minute_per_user: { field: 'checkoutPerMinutePerUser', read: whole(1, 1_000_000) },
  redeem_per_minute_per_address: { field: 'redeemPerMinutePerAddress', read: whole(1, 10_000_000) },
  checkout_per_minute_per_address: { field: 'checkoutPerMinutePerAddress', read: whole(1, 100_000_000) },
  attestation_level: { field: 'attestationLevel', read: whole(0, 2) as Reader<AttestationLevel>, ofEvery: 'device' },
  identity_level: { field: 'identityLevel', read: whole(0, MAX_IDENTITY_LEVEL), ofEvery: 'person' },
  accounts_per_device: { field: 'accountsPerDevice', read: orNull(whole(1, 1_000)) },
  accounts_per_address: { field: 'accountsPerAddress', read: orNull(whole(1, 1_000_000)) },
  account_min_age_hours: { field: 'accountMinAgeHours', read: orNull(whole(1, 87_600)) },
  unusual_hours: { field: 'unusualHours', read: orNull(hours) },
  surge_attempts_per_minute: { field: 'surgeAttemptsPerMinute', read: whole(1, 1_000_000_000) },
} as const satisfies Record<string, { field: string; read: Reader<unknown>; ofEvery?: 'device' | 'person' }>;
export type LimitName = keyof typeof LIMIT_FIELDS;
type Limit = (typeof LIMIT_FIELDS)[LimitName];

/** What each limit means, for operators. */
export const LIMIT_MEANINGS: Record<LimitName, string> = {
  validate_per_minute_per_user: 'checks of codes by one user: as many at once, and as many in each minute after that',
  redeem_per_minute_per_user:
    'attempted redemptions by one user: as many at once, and as many in each minute after that',
  checkout_per_minute_per_user:
    'attempted checkouts by one user: as many at once, and as many in each minute after that; default: no limit',
  redeem_per_minute_per_address:
    'attempted redemptions from one address in a minute; above it, each needs a solved challenge, and with ' +
    '`risk: strict` the address is blocked',
  checkout_per_minute_per_address:
    'attempted checkouts from one address in a minute; above it, each needs a solved challenge, and with ' +
    '`risk: strict` the address is blocked',
  attestation_level:
    'requirement of every claim, whatever `risk` is: 1 = a solved challenge, 2 = a device token that Apple or Google ' +
    'attest (docs/attestation.md; only if one of them is configured)',
  identity_level:
    'requirement of every claim, whatever `risk` is: to what level the shop must have verified the person ' +
    '(docs/identity.md; only if shoppers prove who they are)',
  accounts_per_device: 'number of users per day at which a device is blocked; null = unlimited',
  accounts_per_address: 'users of one address per day; above it, each needs a solved challenge; null = unlimited',
  account_min_age_hours:
    'accounts younger than this (attribute `account_created_at`) need a solved challenge; null = no minimum',
  unusual_hours: 'hours in the campaign’s time zone in which a solved challenge is needed, `to` excluded; null = none',
  surge_attempts_per_minute:
    'attempts per minute in one process, of one network or many, above which claims need a proof of work if `risk` enforces; default: 20,000',
};

/** If a field is missing, the default applies. */
export type CampaignLimits = { [One in Limit as One['field']]?: Exclude<ReturnType<One['read']>, undefined> };
/** The fields with `ofEvery`. A higher value is stricter. */
export type RequiredField = Extract<Limit, { ofEvery: string }>['field'];
export const REQUIRED_FIELDS: readonly RequiredField[] = Object.values(LIMIT_FIELDS).flatMap((limit) =>
  'ofEvery' in limit ? [limit.field] : [],
);

/** Limits of a campaign with `risk: strict` that does not set them. */
export const STRICT_LIMITS = {
  redeemPerMinutePerUser: 3,
  checkoutPerMinutePerUser: 3,
  redeemPerMinutePerAddress: 20,
  checkoutPerMinutePerAddress: 20,
  accountMinAgeHours: 24,
} as const satisfies CampaignLimits;

/** Reads the stored limits of a campaign. */
export function storedLimits(stored: unknown, risk: RiskMode): CampaignLimits {
  const limits: Record<string, unknown> = risk === 'strict' ? { ...STRICT_LIMITS } : {};
  for (const [name, { field, read }] of Object.entries(LIMIT_FIELDS)) {
    const value = read((stored as Record<string, unknown> | null)?.[name]);
    if (value !== undefined) limits[field] = value;
  }
  return limits;
}

export function storedRisk(stored: unknown): RiskMode {
  return RISK_MODES.find((mode) => mode === stored) ?? 'observe';
}
