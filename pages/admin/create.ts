import { call } from './calls.js';
import { el, say } from './elements.js';
import { type Field, Form, field, isChecked, numberOf, textOf } from './fields.js';
import type { View } from './view.js';

const ZONES: string[] = Intl.supportedValuesOf('timeZone');
const number = { inputmode: 'numeric' } as const;

/** Everything that a campaign is created from; what most need is open, the rest is folded away with its defaults. */
export function createView(): View {
  const f = fields();
  const zones = el('datalist', { id: 'zones' }, ...['UTC', ...ZONES].map((zone) => el('option', { value: zone })));
  const code = f.code.root;
  const showCode = () => {
    code.hidden = textOf(f.type) !== 'shared';
  };
  f.type.input.addEventListener('change', showCode);
  const discounts = [f.percent, f.amount, f.currency];
  const showDiscount = () => {
    const kind = textOf(f.discount);
    f.percent.root.hidden = kind !== 'percent';
    f.amount.root.hidden = f.currency.root.hidden = kind !== 'amount';
  };
  f.discount.input.addEventListener('change', showDiscount);
  showDiscount();

  const group = (title: string, ...content: Field[]) =>
    el('fieldset', {}, el('legend', {}, title), el('div', { class: 'grid' }, ...content.map(({ root }) => root)));
  const form = new Form(
    Object.values(f),
    [
      group('What', f.product, f.name, f.type, f.code, f.total, f.perUser, f.maxQty),
      group('When', f.starts, f.ends, f.zone, f.draft),
      group('Paying and waiting', f.hold, f.line, f.lineMax),
      el(
        'details',
        {},
        el('summary', {}, 'More terms'),
        group('Discount', f.discount, ...discounts),
        group('Promises', f.confirmation, f.late, f.refund),
        group('Guards', f.attestation, f.token, f.uniform, f.risk),
      ),
      zones,
    ],
    'Create the campaign',
    async () => {
      const { product_id } = await call<{ product_id: string }>('POST', '/admin/campaigns', bodyOf(f));
      say('The campaign was created.');
      location.hash = `#/campaigns/${encodeURIComponent(product_id)}`;
    },
    [el('a', { class: 'button', href: '#/' }, 'Cancel')],
  );
  return {
    title: 'New campaign',
    root: el(
      'div',
      {},
      el('p', { class: 'crumbs' }, el('a', { href: '#/' }, 'Campaigns')),
      el('div', { class: 'head' }, el('h1', { tabindex: -1 }, 'New campaign')),
      el('section', { class: 'card', 'aria-label': 'Terms of the new campaign' }, form.root),
    ),
    query: () => null,
    show: () => {},
  };
}

type Fields = ReturnType<typeof fields>;

function fields() {
  const check = (pointer: string, label: string, hint: string, checked = false) =>
    field({ pointer, label, hint, attributes: { type: 'checkbox', checked } });
  return {
    product: field({
      pointer: '#/product_id',
      label: 'Product id',
      hint: 'As the shop calls it. Cannot be changed later.',
      attributes: { required: true },
    }),
    name: field({ pointer: '#/name', label: 'Name', hint: 'What shoppers see; the product id when left out.' }),
    type: field({
      pointer: '#/type',
      label: 'Type',
      hint: 'One stock, perhaps with one code; a code for each user; or codes that are handed out.',
      options: {
        shared: 'Shared stock',
        unique: 'Unique codes',
        pool: 'Pool of codes',
      },
    }),
    code: field({ pointer: '#/code', label: 'Code', hint: 'Optional; letters and digits.' }),
    total: field({
      pointer: '#/total_limit',
      label: 'Units',
      hint: 'Empty = no limit.',
      attributes: { ...number, value: '100' },
    }),
    perUser: field({
      pointer: '#/per_user_limit',
      label: 'Redemptions for one user',
      attributes: { ...number, value: '1' },
    }),
    maxQty: field({ pointer: '#/max_qty', label: 'Units in one redemption', attributes: { ...number, value: '1' } }),
    starts: field({
      pointer: '#/starts_at',
      label: 'Starts',
      hint: 'On the clocks of the campaign’s time zone. Empty = now.',
      attributes: { type: 'datetime-local' },
    }),
    ends: field({
      pointer: '#/ends_at',
      label: 'Ends',
      hint: 'Empty = open end.',
      attributes: { type: 'datetime-local' },
    }),
    zone: field({
      pointer: '#/time_zone',
      label: 'Time zone',
      attributes: { list: 'zones', value: Intl.DateTimeFormat().resolvedOptions().timeZone || 'UTC' },
    }),
    draft: check('#/draft', 'Keep it as a draft', 'Shoppers do not see it before it is published.'),
    hold: field({
      pointer: '#/hold_seconds',
      label: 'Seconds to pay',
      hint: '0 = nothing to pay, redeemed at once.',
      attributes: { ...number, value: '300' },
    }),
    line: check('#/waiting_room/enabled', 'Waiting room', 'A user who finds nothing free gets a place in line.', true),
    lineMax: field({
      pointer: '#/waiting_room/max_size',
      label: 'Places in line',
      attributes: { ...number, value: '1000000' },
    }),
    discount: field({
      pointer: '#/discount/kind',
      label: 'Discount',
      options: { '': 'None', percent: 'Percent', amount: 'Amount', free_shipping: 'Free shipping' },
    }),
    percent: field({
      pointer: '#/discount/percent',
      label: 'Percent',
      attributes: { inputmode: 'decimal', value: '10' },
    }),
    amount: field({ pointer: '#/discount/amount', label: 'Amount, minor units', attributes: number }),
    currency: field({ pointer: '#/discount/currency', label: 'Currency', attributes: { value: 'IDR' } }),
    confirmation: field({
      pointer: '#/confirmation',
      label: 'Answer a checkout',
      options: { fast: 'Fast: from the journal', durable: 'Durable: after Postgres has it' },
    }),
    late: field({
      pointer: '#/late_payment',
      label: 'Payment after the time is up',
      options: { refuse: 'Refuse it', reacquire: 'Take a free unit again' },
    }),
    refund: field({
      pointer: '#/refund_policy',
      label: 'Refunded units',
      options: { return: 'Return to stock', burn: 'Are burned' },
    }),
    attestation: check('#/require_attestation', 'Device token needed', 'Checkout needs a token of this device.', true),
    token: check('#/require_token', 'One-time token needed', 'Redeeming a code needs a token of its own.'),
    uniform: check('#/uniform_refusals', 'Uniform refusals', 'Refusals do not tell which codes exist.'),
    risk: field({
      pointer: '#/risk',
      label: 'Rules on risk',
      options: { observe: 'Observe: only count', enforce: 'Enforce: decide', off: 'Off' },
    }),
  };
}

function bodyOf(f: Fields): Record<string, unknown> {
  const type = textOf(f.type);
  return {
    product_id: textOf(f.product),
    ...(textOf(f.name) ? { name: textOf(f.name) } : {}),
    type,
    code: type === 'shared' ? textOf(f.code) || null : null,
    total_limit: numberOf(f.total) ?? null,
    per_user_limit: numberOf(f.perUser),
    max_qty: numberOf(f.maxQty),
    ...(textOf(f.starts) ? { starts_at: withSeconds(textOf(f.starts)) } : {}),
    ends_at: textOf(f.ends) ? withSeconds(textOf(f.ends)) : null,
    time_zone: textOf(f.zone),
    draft: isChecked(f.draft),
    hold_seconds: numberOf(f.hold),
    waiting_room: { enabled: isChecked(f.line), max_size: numberOf(f.lineMax) },
    discount: discountOf(f),
    confirmation: textOf(f.confirmation),
    late_payment: textOf(f.late),
    refund_policy: textOf(f.refund),
    require_attestation: isChecked(f.attestation),
    require_token: isChecked(f.token),
    uniform_refusals: isChecked(f.uniform),
    risk: textOf(f.risk),
  };
}

function discountOf(f: Fields): Record<string, unknown> | null {
  const kind = textOf(f.discount);
  if (kind === 'percent') return { kind, percent: numberOf(f.percent) };
  if (kind === 'amount') return { kind, amount: numberOf(f.amount), currency: textOf(f.currency) };
  return kind === '' ? null : { kind };
}

/** A local time as the service takes it; browsers leave out seconds that are 0. */
const withSeconds = (local: string): string => (local.length === 16 ? `${local}:00` : local);
