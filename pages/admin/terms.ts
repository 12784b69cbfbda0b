import { el } from './elements.js';
import { count, duration, time } from './words.js';

type Terms = Record<string, unknown>;

const text = (value: unknown): string => String(value);
const yes = (value: unknown): string => (value ? 'yes' : 'no');
const moment = (value: unknown): string => (value === null ? 'never' : time(text(value)));

const TERMS: [string, (terms: Terms) => string][] = [
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

/** The terms of a campaign, to read. They are changed by PATCH /admin/campaigns/:id. */
export function termsOf(terms: Terms, product: string): HTMLElement {
  const sale = `/sale/${encodeURIComponent(product)}`;
  return el(
    'div',
    {},
    el('dl', { class: 'facts' }, ...TERMS.flatMap(([name, of]) => [el('dt', {}, name), el('dd', {}, of(terms))])),
    el('p', { class: 'buttons' }, el('a', { class: 'button', href: sale }, 'The shopper’s page')),
  );
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

function roomText({ enabled, max_size }: Terms): string {
  return enabled ? `up to ${count(Number(max_size))} people` : 'none';
}
