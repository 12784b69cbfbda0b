import type { Random } from '../random.js';

/** How shoppers get a unit of a campaign. */
export type Entrance = 'checkout' | 'shared-code' | 'unique-codes';

export type CampaignKind = {
  name: string;
  entrance: Entrance;
  /** How many of a hundred shoppers go to a campaign of this kind. */
  weight: number;
  /** Units for each minute of the run; null = unlimited. */
  unitsPerMinute: number | null;
  terms: Record<string, unknown>;
};

const line = (more: object = {}) => ({ enabled: true, max_size: 100_000, ...more });

/** Every kind of campaign that is not divided, with holds that end within seconds. */
const KINDS: readonly CampaignKind[] = [
  { name: 'instant', entrance: 'checkout', weight: 8, unitsPerMinute: 300, terms: { require_attestation: true } },
  {
    name: 'line',
    entrance: 'checkout',
    weight: 18,
    unitsPerMinute: 60,
    terms: { hold_seconds: 4, waiting_room: line() },
  },
  {
    name: 'presence',
    entrance: 'checkout',
    weight: 8,
    unitsPerMinute: 30,
    terms: { hold_seconds: 4, waiting_room: line({ presence_seconds: 5 }) },
  },
  {
    name: 'groups',
    entrance: 'checkout',
    weight: 10,
    unitsPerMinute: 60,
    terms: { hold_seconds: 4, max_qty: 3, waiting_room: line() },
  },
  { name: 'unlimited', entrance: 'checkout', weight: 8, unitsPerMinute: null, terms: { hold_seconds: 4, max_qty: 5 } },
  {
    name: 'reacquire',
    entrance: 'checkout',
    weight: 8,
    unitsPerMinute: 60,
    terms: { hold_seconds: 2, late_payment: 'reacquire', waiting_room: line() },
  },
  {
    name: 'burn',
    entrance: 'checkout',
    weight: 8,
    unitsPerMinute: 40,
    terms: { hold_seconds: 3, refund_policy: 'burn', waiting_room: line() },
  },
  {
    name: 'durable',
    entrance: 'checkout',
    weight: 10,
    unitsPerMinute: 60,
    terms: { hold_seconds: 4, confirmation: 'durable', waiting_room: line() },
  },
  {
    name: 'allowances',
    entrance: 'checkout',
    weight: 8,
    unitsPerMinute: 60,
    terms: { hold_seconds: 3, per_user_limit: 2, waiting_room: line() },
  },
  {
    name: 'pool',
    entrance: 'checkout',
    weight: 6,
    unitsPerMinute: 40,
    terms: { type: 'pool', hold_seconds: 3, waiting_room: line() },
  },
  { name: 'shared-code', entrance: 'shared-code', weight: 6, unitsPerMinute: 60, terms: { type: 'shared' } },
  {
    name: 'unique-codes',
    entrance: 'unique-codes',
    weight: 6,
    unitsPerMinute: 60,
    terms: { type: 'unique', hold_seconds: 3 },
  },
];

/** The kinds of a run. @param buckets of the divided campaigns; 1 = there are none */
export function campaignKinds(buckets: number): readonly CampaignKind[] {
  if (buckets === 1) return KINDS;
  const divided = { entrance: 'checkout', weight: 20, unitsPerMinute: 80 } as const;
  return [
    ...KINDS,
    { name: 'buckets-line', ...divided, terms: { buckets, hold_seconds: 4, waiting_room: line() } },
    { name: 'buckets', ...divided, terms: { buckets, hold_seconds: 3 } },
    { name: 'buckets-pool', ...divided, terms: { type: 'pool', buckets, hold_seconds: 4, waiting_room: line() } },
  ];
}

/** A campaign of a run, as the crowd and the judge know it. */
export type RunCampaign = {
  product: string;
  kind: CampaignKind;
  terms: Record<string, unknown>;
  /** Units at the start; null = unlimited. */
  total: number | null;
  /** The code of a shared campaign. */
  code: string | null;
  /** Users of a campaign with a code for each of them. */
  owners: { user: string; code: string }[];
};

export function planCampaign(kind: CampaignKind, number: number, minutes: number, random: Random): RunCampaign {
  const total = kind.unitsPerMinute === null ? null : Math.max(8, Math.round(kind.unitsPerMinute * minutes));
  const product = `${kind.name}-${number}-${random.text(4)}`;
  const prefix = random.text(6).toUpperCase();
  const owners =
    kind.entrance === 'unique-codes'
      ? Array.from({ length: total ?? 0 }, (_, i) => ({ user: `${product}-u${i}`, code: `${prefix}${1_000 + i}` }))
      : [];
  const code = kind.entrance === 'shared-code' ? `${prefix}SALE` : null;
  const terms = {
    product_id: product,
    name: product,
    total_limit: total,
    require_attestation: false,
    ...(code === null ? {} : { code }),
    ...kind.terms,
  };
  return { product, kind, terms, total, code, owners };
}
