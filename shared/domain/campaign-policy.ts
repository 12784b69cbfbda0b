import type { AudienceRule } from './audience.js';

export const RISK_MODES = ['off', 'observe', 'enforce'] as const;
/** off: not looked at · observe: looked at behind the answer's back, counted and logged · enforce: decides */
export type RiskMode = (typeof RISK_MODES)[number];

/** What a campaign may say instead of the defaults; a field that is not there says nothing. */
export type CampaignLimits = {
  validatePerMinutePerUser?: number;
  redeemPerMinutePerUser?: number;
  redeemPerMinutePerAddress?: number;
  checkoutPerMinutePerAddress?: number;
  attestationLevel?: AttestationLevel;
  accountsPerDevice?: number | null;
  accountsPerAddress?: number | null;
  accountMinAgeHours?: number | null;
  unusualHours?: HourSpan | null;
  velocityFactor?: number;
  velocityFloorPerMinute?: number;
};

/** Users a day on one device, and in one network, before a risk rule applies; a campaign may state its own. */
export const DEFAULT_ACCOUNTS_PER_DEVICE = 5;
export const DEFAULT_ACCOUNTS_PER_ADDRESS = 100;

/** 0: the device says so itself · 1: a proof of work · 2: Apple or Google vouch for app and device */
export const ATTESTATION_LEVELS = [0, 1, 2] as const;
export type AttestationLevel = (typeof ATTESTATION_LEVELS)[number];

/** Hours of the day in the campaign's zone, `to` not included; 22 to 5 goes over midnight. */
export type HourSpan = { from: number; to: number };

/** What the guards go by in one campaign. */
export type CampaignPolicy = {
  product: string;
  /** Of the terms it belongs to. */
  version: number;
  risk: RiskMode;
  timeZone: string;
  /** Refusals say of its codes only that they cannot be used. */
  uniformRefusals: boolean;
  limits: CampaignLimits;
  /** Who may take a unit; null = everybody. */
  audience: AudienceRule | null;
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

/** Name in the contract → field and what it takes. A campaign that was stored with anything else is read without it. */
export const LIMIT_FIELDS = {
  validate_per_minute_per_user: { field: 'validatePerMinutePerUser', read: whole(1, 1_000_000) },
  redeem_per_minute_per_user: { field: 'redeemPerMinutePerUser', read: whole(1, 1_000_000) },
  redeem_per_minute_per_address: { field: 'redeemPerMinutePerAddress', read: whole(1, 10_000_000) },
  checkout_per_minute_per_address: { field: 'checkoutPerMinutePerAddress', read: whole(1, 100_000_000) },
  attestation_level: { field: 'attestationLevel', read: whole(0, 2) as Reader<AttestationLevel> },
  accounts_per_device: { field: 'accountsPerDevice', read: orNull(whole(1, 1_000)) },
  accounts_per_address: { field: 'accountsPerAddress', read: orNull(whole(1, 1_000_000)) },
  account_min_age_hours: { field: 'accountMinAgeHours', read: orNull(whole(1, 87_600)) },
  unusual_hours: { field: 'unusualHours', read: orNull(hours) },
  velocity_factor: { field: 'velocityFactor', read: whole(2, 1_000_000) },
  velocity_floor_per_minute: { field: 'velocityFloorPerMinute', read: whole(1, 1_000_000_000) },
} as const satisfies Record<string, { field: keyof CampaignLimits; read: Reader<unknown> }>;
export type LimitName = keyof typeof LIMIT_FIELDS;

/** Reads what a campaign was stored with. */
export function storedLimits(stored: unknown): CampaignLimits {
  const limits: Record<string, unknown> = {};
  for (const [name, { field, read }] of Object.entries(LIMIT_FIELDS)) {
    const value = read((stored as Record<string, unknown> | null)?.[name]);
    if (value !== undefined) limits[field] = value;
  }
  return limits;
}

export function storedRisk(stored: unknown): RiskMode {
  return RISK_MODES.find((mode) => mode === stored) ?? 'observe';
}
