import { count, duration, time } from './words.js';

export type FieldOptions = {
  pointer: string;
  label: string;
  hint?: string;
  attributes?: Record<string, string | number | boolean>;
  /** Makes the field a choice: value → label. */
  options?: Record<string, string>;
};

/** A campaign in the form of the API. */
export type Terms = Readonly<Record<string, unknown>>;
type Group = 'What' | 'When' | 'Paying and waiting' | 'Discount' | 'Promises' | 'Guards';
type TermField = Omit<FieldOptions, 'pointer'> & { group: Group };

const number = { inputmode: 'numeric' } as const;
const check = (group: Group, label: string, hint: string, checked = false): TermField => ({
  group,
  label,
  hint,
  attributes: { type: 'checkbox', checked },
});

/**
 * The fields of the form that creates a campaign: name in the contract → field. A `/` separates an object and its
 * member.
 */
export const FIELDS = {
  product_id: {
    group: 'What',
    label: 'Product id',
    hint: 'The id of the product in the shop. Cannot be changed later.',
    attributes: { required: true },
  },
  name: { group: 'What', label: 'Name', hint: 'The name that shoppers see. Empty = the product id.' },
  type: {
    group: 'What',
    label: 'Type',
    hint: 'One stock, optionally with one code; a code for each user; or codes that are handed out.',
    options: {
      shared: 'Shared stock',
      unique: 'Unique codes',
      pool: 'Pool of codes',
    },
  },
  code: { group: 'What', label: 'Code', hint: 'Optional; letters and digits.' },
  total_limit: {
    group: 'What',
    label: 'Units',
    hint: 'Empty = no limit.',
    attributes: { ...number, value: '100' },
  },
  per_user_limit: {
    group: 'What',
    label: 'Redemptions for one user',
    attributes: { ...number, value: '1' },
  },
  max_qty: { group: 'What', label: 'Units in one redemption', attributes: { ...number, value: '1' } },
  starts_at: {
    group: 'When',
    label: 'Starts',
    hint: 'On the clocks of the campaign’s time zone. Empty = now.',
    attributes: { type: 'datetime-local', step: 1 },
  },
  ends_at: {
    group: 'When',
    label: 'Ends',
    hint: 'Empty = no end.',
    attributes: { type: 'datetime-local', step: 1 },
  },
  time_zone: {
    group: 'When',
    label: 'Time zone',
    attributes: { list: 'zones', value: Intl.DateTimeFormat().resolvedOptions().timeZone || 'UTC' },
  },
  draft: check('When', 'Keep it as a draft', 'Shoppers do not see it before it is published.', true),
  hold_seconds: {
    group: 'Paying and waiting',
    label: 'Seconds to pay',
    hint: '0 = nothing to pay, redeemed at once.',
    attributes: { ...number, value: '300' },
  },
  'waiting_room/enabled': check(
    'Paying and waiting',
    'Waiting room',
    'A user who finds nothing free gets a place in line.',
    true,
  ),
  'waiting_room/max_size': {
    group: 'Paying and waiting',
    label: 'Places in line',
    attributes: { ...number, value: '1000000' },
  },
  'waiting_room/presence_seconds': {
    group: 'Paying and waiting',
    label: 'Seconds until an absent user steps back',
    hint: 'Empty = users keep their place without looking.',
    attributes: number,
  },
  'waiting_room/absent_hold_seconds': {
    group: 'Paying and waiting',
    label: 'Seconds to pay for absent users',
    hint: 'Empty = absent users step back instead of getting a unit.',
    attributes: number,
  },
  'discount/kind': {
    group: 'Discount',
    label: 'Discount',
    options: { '': 'None', percent: 'Percent', amount: 'Amount', free_shipping: 'Free shipping' },
  },
  'discount/percent': {
    group: 'Discount',
    label: 'Percent',
    attributes: { inputmode: 'decimal', value: '10' },
  },
  'discount/amount': { group: 'Discount', label: 'Amount, minor units', attributes: number },
  'discount/currency': { group: 'Discount', label: 'Currency', attributes: { value: 'IDR' } },
  buckets: {
    group: 'Promises',
    label: 'Parts of the stock (buckets)',
    hint: 'More than 1 divides the stock over that many shards of Redis, for a sale that one of them cannot decide. Cannot be changed later.',
    attributes: { ...number, value: '1' },
  },
  confirmation: {
    group: 'Promises',
    label: 'Respond to a checkout',
    options: { fast: 'Fast: from the journal', durable: 'Durable: after the commit in Postgres' },
  },
  late_payment: {
    group: 'Promises',
    label: 'Payment after the deadline',
    options: { refuse: 'Refuse it', reacquire: 'Take a free unit again' },
  },
  refund_policy: {
    group: 'Promises',
    label: 'Refunded units',
    options: { return: 'Return to stock', burn: 'Are burned' },
  },
  require_attestation: check('Guards', 'Device token needed', 'Checkout needs a token of this device.', true),
  require_token: check('Guards', 'One-time token needed', 'Redeeming a code needs a one-time token.'),
  checkout_url: {
    group: 'Paying and waiting',
    label: 'Page to pay on',
    hint: 'Empty = none. A URL of the shop with placeholders, such as https://shop.example/pay?order={order_id}&sig={signature}',
    attributes: { type: 'text', maxlength: 1024 },
  },
  extend_seconds: {
    group: 'Paying and waiting',
    label: 'Longer time to pay, seconds',
    hint: 'By how much a payment service may extend the time to pay, once. Empty = by the time to pay, at most 30 minutes. 0 = not at all.',
    attributes: number,
  },
  uniform_refusals: check('Guards', 'Uniform refusals', 'Refusals do not reveal which codes exist.'),
  risk: {
    group: 'Guards',
    label: 'Rules on risk',
    options: {
      observe: 'Observe: only count',
      enforce: 'Enforce: decide',
      strict: 'Strict: decide, and block addresses',
      off: 'Off',
    },
  },
  velocity: {
    group: 'Guards',
    label: 'Far more users than usual within seconds',
    hint: 'Automatic = pause for coupons with a limit and without a line, else alert.',
    options: { '': 'Automatic', pause: 'Pause the campaign', alert: 'Only alert', off: 'Ignore' },
  },
  opening_minutes: {
    group: 'Guards',
    label: 'Minutes without such a pause',
    hint: 'After the start and after a restock. Many users are usual then.',
    attributes: { ...number, value: '2' },
  },
} satisfies Record<string, TermField>;

const text = (value: unknown): string => String(value);
const yes = (value: unknown): string => (value ? 'yes' : 'no');
const moment = (value: unknown): string => (value === null ? 'never' : time(text(value)));

/** The terms that the page shows. A test compares them, and the fields, with the table of terms. */
export const FACTS: [string, (terms: Terms) => string][] = [
  ['Starts, your time', ({ starts_at }) => moment(starts_at)],
  ['Ends, your time', ({ ends_at }) => moment(ends_at)],
  ['Its time zone', ({ time_zone }) => text(time_zone)],
  ['Type', ({ type, code }) => (code ? `${text(type)}, code ${text(code)}` : text(type))],
  ['Discount', ({ discount }) => discountText(discount as Terms | null)],
  ['Time to pay', ({ hold_seconds }) => (hold_seconds ? duration(Number(hold_seconds) * 1000) : 'nothing to pay')],
  ['For one user', ({ per_user_limit, max_qty }) => allowanceText(Number(per_user_limit), Number(max_qty))],
  ['Waiting room', ({ waiting_room }) => roomText(waiting_room as Terms)],
  [
    'Answer',
    ({ confirmation }) => (confirmation === 'durable' ? 'after Postgres has it' : 'at once, from the journal'),
  ],
  ['Late payment', ({ late_payment }) => (late_payment === 'reacquire' ? 'takes a free unit again' : 'refused')],
  ['Refunded units', ({ refund_policy }) => (refund_policy === 'burn' ? 'are burned' : 'return to stock')],
  ['Device token', ({ require_attestation }) => `needed: ${yes(require_attestation)}`],
  ['Rules on risk', ({ risk }) => text(risk)],
  [
    'Far more users than usual',
    ({ velocity, opening_minutes }) => velocityText(text(velocity), Number(opening_minutes)),
  ],
  ['Version', ({ version }) => text(version)],
];

function velocityText(velocity: string, openingMinutes: number): string {
  if (velocity === 'off') return 'are ignored';
  if (velocity === 'alert') return 'raise an alert';
  return `pause it, except ${count(openingMinutes)} minutes after the start and a restock`;
}

function discountText(discount: Terms | null): string {
  if (!discount) return 'none';
  if (discount.kind === 'percent') return `${text(discount.percent)} %`;
  if (discount.kind === 'amount') return `${count(Number(discount.amount))} ${text(discount.currency)} (minor units)`;
  return 'free shipping';
}

function allowanceText(limit: number, units: number): string {
  const times = limit === 1 ? 'once' : `${count(limit)} times`;
  return units === 1 ? `${times}, one unit` : `${times}, up to ${count(units)} units`;
}

function roomText({ enabled, max_size, presence_seconds, absent_hold_seconds }: Terms): string {
  if (!enabled) return 'none';
  const presence = presence_seconds ? `, seen every ${duration(Number(presence_seconds) * 1000)}` : '';
  const absent = absent_hold_seconds ? `, absent ones have ${duration(Number(absent_hold_seconds) * 1000)} to pay` : '';
  return `up to ${count(Number(max_size))} people${presence}${absent}`;
}

/** A term that differs between two versions. */
export type TermChange = { field: string; before: unknown; after: unknown };

const RULE_NAMES: Record<string, string> = {
  waiting_room: 'Waiting room',
  discount: 'Discount',
  audience: 'Audience',
  stacking: 'Stacking',
  limits: 'Limits',
  branding: 'Sale page',
};

/** What a term is called in the form. */
export const termName = (field: string): string =>
  RULE_NAMES[field] ?? (FIELDS as Record<string, TermField>)[field]?.label ?? field;

/** A value of a term in words; an object as JSON, unless there are words for it. */
export function valueText(field: string, value: unknown): string {
  if (value === null || value === undefined) return 'none';
  if (field === 'discount') return discountText(value as Terms);
  if (field === 'waiting_room') return roomText(value as Terms);
  if (typeof value === 'string' && /^\d{4}-\d\d-\d\dT/.test(value)) return time(value);
  if (typeof value === 'boolean') return yes(value);
  return typeof value === 'object' ? JSON.stringify(value) : text(value);
}
