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
    attributes: { type: 'datetime-local' },
  },
  ends_at: {
    group: 'When',
    label: 'Ends',
    hint: 'Empty = no end.',
    attributes: { type: 'datetime-local' },
  },
  time_zone: {
    group: 'When',
    label: 'Time zone',
    attributes: { list: 'zones', value: Intl.DateTimeFormat().resolvedOptions().timeZone || 'UTC' },
  },
  draft: check('When', 'Keep it as a draft', 'Shoppers do not see it before it is published.'),
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
  uniform_refusals: check('Guards', 'Uniform refusals', 'Refusals do not reveal which codes exist.'),
  risk: {
    group: 'Guards',
    label: 'Rules on risk',
    options: { observe: 'Observe: only count', enforce: 'Enforce: decide', off: 'Off' },
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
  ['Version', ({ version }) => text(version)],
];

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

function roomText({ enabled, max_size }: Terms): string {
  return enabled ? `up to ${count(Number(max_size))} people` : 'none';
}
