import { call } from './calls.js';
import { el, say } from './elements.js';
import { type Field, Form, field, numberOf, textOf, valueIn } from './fields.js';
import { FIELDS } from './term-fields.js';
import type { View } from './view.js';

const ZONES: string[] = Intl.supportedValuesOf('timeZone');

/** The form that creates a campaign. The most common fields are visible; the others are folded, with their defaults. */
export function createView(): View {
  const f = Object.fromEntries(
    Object.entries(FIELDS).map(([name, options]) => [name, field({ pointer: `#/${name}`, ...options })]),
  ) as Fields;
  const zones = el('datalist', { id: 'zones' }, ...['UTC', ...ZONES].map((zone) => el('option', { value: zone })));
  const showCode = () => {
    f.code.root.hidden = textOf(f.type) !== 'shared';
  };
  f.type.input.addEventListener('change', showCode);
  const showDiscount = () => {
    const kind = textOf(f['discount/kind']);
    f['discount/percent'].root.hidden = kind !== 'percent';
    f['discount/amount'].root.hidden = f['discount/currency'].root.hidden = kind !== 'amount';
  };
  f['discount/kind'].input.addEventListener('change', showDiscount);
  showDiscount();

  const group = (title: (typeof FIELDS)[keyof typeof FIELDS]['group']) => {
    const names = (Object.keys(FIELDS) as (keyof typeof FIELDS)[]).filter((name) => FIELDS[name].group === title);
    const content = names.map((name) => f[name].root);
    return el('fieldset', {}, el('legend', {}, title), el('div', { class: 'grid' }, ...content));
  };
  const form = new Form(
    Object.values(f),
    [
      group('What'),
      group('When'),
      group('Paying and waiting'),
      el('details', {}, el('summary', {}, 'More terms'), group('Discount'), group('Promises'), group('Guards')),
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

type Fields = Record<keyof typeof FIELDS, Field>;

function bodyOf(f: Fields): Record<string, unknown> {
  const body: Record<string, unknown> = {};
  for (const [name, input] of Object.entries(f)) {
    const [term, part] = name.split('/') as [string, string | undefined];
    body[term] = part ? Object.assign(body[term] ?? {}, { [part]: valueIn(input) }) : valueIn(input);
  }
  return {
    ...body,
    name: textOf(f.name) || undefined,
    code: textOf(f.type) === 'shared' ? textOf(f.code) || null : null,
    total_limit: numberOf(f.total_limit) ?? null,
    ends_at: valueIn(f.ends_at) ?? null,
    discount: discountOf(f),
  };
}

function discountOf(f: Fields): Record<string, unknown> | null {
  const kind = textOf(f['discount/kind']);
  if (kind === 'percent') return { kind, percent: numberOf(f['discount/percent']) };
  if (kind === 'amount')
    return { kind, amount: numberOf(f['discount/amount']), currency: textOf(f['discount/currency']) };
  return kind === '' ? null : { kind };
}
