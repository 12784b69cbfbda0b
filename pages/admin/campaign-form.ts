import { type BrandFields, brandFields } from './brand-fields.js';
import { el } from './elements.js';
import { type Field, field, numberOf, textOf, valueIn } from './fields.js';
import { maxBuckets } from './role.js';
import { type RuleFields, ruleFields } from './rule-fields.js';
import { FIELDS, type Terms } from './term-fields.js';

const ZONES: string[] = Intl.supportedValuesOf('timeZone');
/** Fields that a campaign gets when it is created, and keeps. */
const FIXED = ['product_id', 'type', 'code', 'total_limit', 'buckets', 'draft'] as const;

type Fields = Record<keyof typeof FIELDS, Field>;
type Body = Record<string, unknown>;

export type CampaignForm = {
  /** The fields that are sent now. */
  fields(): Field[];
  /** The groups of fields. */
  content: Node[];
  named: Fields;
  /** The campaign in the form of the API. @throws Refused if a rule cannot be read */
  body(): Body;
  /** Shows the terms of a campaign. */
  fill(terms: Terms): void;
};

/**
 * The fields of a campaign. The most common ones are visible; the others are folded, with their defaults.
 * @param isNew false = without the fields that cannot be changed later
 */
export function campaignForm(isNew: boolean): CampaignForm {
  const f = Object.fromEntries(
    Object.entries(FIELDS).map(([name, options]) => [name, field({ pointer: `#/${name}`, ...options })]),
  ) as Fields;
  const rules = ruleFields();
  const brand = brandFields();
  const zones = el('datalist', { id: 'zones' }, ...['UTC', ...ZONES].map((zone) => el('option', { value: zone })));
  const showByType = () => {
    f.code.root.hidden = !isNew || textOf(f.type) !== 'shared';
    f.buckets.root.hidden = !isNew || !mayDivide(f);
  };
  f.type.input.addEventListener('change', showByType);
  const showDiscount = () => {
    const kind = textOf(f['discount/kind']);
    f['discount/percent'].root.hidden = kind !== 'percent';
    f['discount/amount'].root.hidden = f['discount/currency'].root.hidden = kind !== 'amount';
  };
  f['discount/kind'].input.addEventListener('change', showDiscount);
  showDiscount();
  if (!isNew) for (const name of FIXED) f[name].root.hidden = true;
  showByType();

  const group = (title: (typeof FIELDS)[keyof typeof FIELDS]['group']) => {
    const names = (Object.keys(FIELDS) as (keyof typeof FIELDS)[]).filter((name) => FIELDS[name].group === title);
    const content = names.map((name) => f[name].root);
    return el('fieldset', {}, el('legend', {}, title), el('div', { class: 'grid' }, ...content));
  };
  return {
    fields: () => [...Object.values(f), ...rules.fields, ...brand.fields()],
    named: f,
    content: [
      group('What'),
      group('When'),
      group('Paying and waiting'),
      el(
        'details',
        {},
        el('summary', {}, 'More terms'),
        group('Discount'),
        group('Promises'),
        group('Guards'),
        rules.root,
      ),
      brand.root,
      zones,
    ],
    body: () => bodyOf(f, rules, brand, isNew),
    fill(terms) {
      fill(f, terms);
      rules.fill(terms);
      brand.fill(terms);
      showByType();
      showDiscount();
    },
  };
}

/** Whether a campaign of the chosen type can be divided here. */
const mayDivide = (f: Fields): boolean => maxBuckets() > 1 && textOf(f.type) !== 'unique';

function bodyOf(f: Fields, rules: RuleFields, brand: BrandFields, isNew: boolean): Body {
  const body: Body = {};
  for (const [name, input] of Object.entries(f)) {
    const [term, part] = name.split('/') as [string, string | undefined];
    body[term] = part ? Object.assign(body[term] ?? {}, { [part]: valueIn(input) }) : valueIn(input);
  }
  const room = body.waiting_room as Body;
  const whole = {
    ...body,
    name: textOf(f.name) || undefined,
    code: textOf(f.type) === 'shared' ? textOf(f.code) || null : null,
    total_limit: numberOf(f.total_limit) ?? null,
    buckets: mayDivide(f) ? numberOf(f.buckets) : undefined,
    ends_at: valueIn(f.ends_at) ?? null,
    checkout_url: textOf(f.checkout_url) || null,
    discount: discountOf(f),
    velocity: textOf(f.velocity) || undefined,
    waiting_room: { ...room, presence_seconds: room.presence_seconds ?? null },
    branding: brand.value(),
    ...rules.values(),
  };
  if (isNew) return whole;
  return Object.fromEntries(Object.entries(whole).filter(([name]) => !(FIXED as readonly string[]).includes(name)));
}

function discountOf(f: Fields): Body | null {
  const kind = textOf(f['discount/kind']);
  if (kind === 'percent') return { kind, percent: numberOf(f['discount/percent']) };
  if (kind === 'amount')
    return { kind, amount: numberOf(f['discount/amount']), currency: textOf(f['discount/currency']) };
  return kind === '' ? null : { kind };
}

/** Writes the terms of a campaign into the fields. Times are on the clocks of its time zone. */
function fill(f: Fields, terms: Terms): void {
  const shown: Terms = {
    ...terms,
    starts_at: String(terms.starts_at_local ?? '').slice(0, 19),
    ends_at: terms.ends_at_local ? String(terms.ends_at_local).slice(0, 19) : null,
  };
  for (const [name, { input }] of Object.entries(f)) {
    const [term, part] = name.split('/') as [string, string | undefined];
    const whole = shown[term];
    const value = part ? (whole as Terms | null)?.[part] : whole;
    if (name === 'draft') continue;
    if (input.type === 'checkbox') (input as HTMLInputElement).checked = value === true;
    else if (value !== undefined && value !== null) input.value = String(value);
    // A discount that is not chosen keeps the values that its fields begin with.
    else if (name === 'discount/kind' || !name.startsWith('discount/')) input.value = '';
  }
}

/** Members of a campaign that no form sends: the service makes them, or they belong to one campaign alone. */
const OWN = [
  'id',
  'status',
  'hidden',
  'version',
  'buckets',
  'created_at',
  'updated_at',
  'starts_at_local',
  'ends_at_local',
  'warnings',
];

/** The terms of a campaign that a copy has, also those without a field. */
export function copiedTerms(terms: Terms): Body {
  return Object.fromEntries(Object.entries(terms).filter(([name]) => !OWN.includes(name)));
}

/** The members of a body that differ from those before, so that only they are changed. */
export function changedOf(before: Body, after: Body): Body {
  return Object.fromEntries(
    Object.entries(after).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(before[name])),
  );
}

/** Proposes the product id of a copy: `sale` → `sale-2`, `sale-2` → `sale-3`. */
export function nextProductId(product: string): string {
  const [, base = product, last] = /^(.*?)-(\d{1,6})$/.exec(product) ?? [];
  return `${base.slice(0, 120)}-${last === undefined ? 2 : Number(last) + 1}`;
}
