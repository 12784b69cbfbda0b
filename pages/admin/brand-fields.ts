import { CARD_GROUNDS, COLOUR_PATTERN, inkOn, readableOn } from '../../shared/domain/colour.js';
import { majorText, minorDigits, minorUnitsIn } from '../../shared/domain/money.js';
import { brandTexts } from './brand-texts.js';
import { Refused } from './calls.js';
import { button, el, write } from './elements.js';
import { type Field, field, jsonIn, textOf } from './fields.js';
import { moneyText } from './history-words.js';
import type { FieldOptions, Terms } from './term-fields.js';

type Json = Record<string, unknown>;
type BrandField = Omit<FieldOptions, 'pointer'>;

const SECURE = 'An address that begins with https://.';
const PICTURE = 'An address that begins with https://, of an origin in IMAGE_ORIGINS.';

/** The members of `branding` that are a text. */
const TEXTS: Record<string, BrandField> = {
  title: { label: 'Headline', hint: 'Also in previews of links. Empty = what the campaign is called.' },
  description: { label: 'Description', hint: 'The text below the headline.', attributes: { rows: 3 } },
  image_url: { label: 'Picture', hint: PICTURE },
  image_alt: { label: 'What the picture shows', hint: 'For those who do not see it.' },
  logo_url: { label: 'Logo', hint: PICTURE },
  shop_name: { label: 'Shop', hint: 'What the shop is called on the page.' },
  shop_url: { label: 'Link back to the shop', hint: SECURE },
  order_url: { label: 'Link to the orders', hint: `Shown to those who have paid. ${SECURE}` },
  contact_url: { label: 'Link to the contact of the shop', hint: SECURE },
  terms_url: { label: 'Link to the terms of sale', hint: SECURE },
  privacy_url: { label: 'Link to the privacy policy', hint: SECURE },
  accent: { label: 'Accent colour', hint: 'Such as #0b5fff. The page adjusts it where it is text.' },
};

export type BrandFields = {
  root: HTMLElement;
  /** The fields that are sent now: those of the rows of texts change. */
  fields(): Field[];
  /** `branding` in the form of the API; null = the default page. @throws Refused if the box is not JSON */
  value(): unknown;
  fill(terms: Terms): void;
};

/** Fields for the sale page of a campaign, with its colour as shoppers see it, and JSON for experts. */
export function brandFields(): BrandFields {
  const texts = Object.fromEntries(
    Object.entries(TEXTS).map(([name, options]) => [name, field({ pointer: `#/branding/${name}`, ...options })]),
  ) as Record<string, Field>;
  const price = priceFields();
  const forward = field({
    pointer: '#/branding/forward_to_checkout',
    label: 'Open the page to pay by itself',
    hint: 'As soon as a shopper gets a unit.',
    attributes: { type: 'checkbox' },
  });
  const rows = brandTexts();
  const json = field({
    pointer: '#/branding',
    label: 'Sale page as JSON',
    hint: 'For experts: `branding` of docs/sale-page.md. Replaces the fields above.',
    attributes: { rows: 4 },
  });
  const { accent, ...others } = texts as { accent: Field } & Record<string, Field>;
  const ofFields = (): Json | null => {
    const given = Object.entries(texts).flatMap(([name, one]) => (textOf(one) ? [[name, textOf(one)] as const] : []));
    const written = rows.value();
    const whole = {
      ...Object.fromEntries(given),
      ...price.value(),
      ...((forward.input as HTMLInputElement).checked ? { forward_to_checkout: true } : {}),
      ...(written ? { texts: written } : {}),
    };
    return Object.keys(whole).length > 0 ? whole : null;
  };
  const copy = button('Write the fields as JSON', () => {
    try {
      json.input.value = JSON.stringify(ofFields() ?? {}, null, 2);
      json.input.focus();
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      showRefusal(error, [...price.fields, ...rows.fields()]);
    }
  });
  const preview = colourPreview(accent);
  return {
    root: el(
      'details',
      {},
      el('summary', {}, 'Sale page'),
      el(
        'div',
        { class: 'grid' },
        ...Object.values(others).map(({ root }) => root),
        ...price.fields.map(({ root }) => root),
        el('div', {}, accent.root, preview.root),
        forward.root,
      ),
      rows.root,
      json.root,
      el('p', { class: 'buttons' }, copy),
    ),
    fields: () => (textOf(json) ? [json] : [...Object.values(texts), ...price.fields, forward, ...rows.fields(), json]),
    value: () => (textOf(json) ? jsonIn(json) : ofFields()),
    fill({ branding }) {
      const { price: amount, currency, texts: written, forward_to_checkout, ...rest } = (branding ?? {}) as Json;
      for (const [name, { input }] of Object.entries(texts)) input.value = String(rest[name] ?? '');
      price.fill(amount as number | undefined, String(currency ?? ''));
      (forward.input as HTMLInputElement).checked = forward_to_checkout === true;
      rows.fill((written ?? {}) as Record<string, Record<string, string>>);
      // What a later version of the service has added is kept as JSON.
      const isKnown = Object.keys(rest).every((name) => Object.hasOwn(TEXTS, name));
      json.input.value = isKnown ? '' : JSON.stringify(branding, null, 2);
      preview.show();
    },
  };
}

/** A price as people write it, and its currency. The API takes minor units. */
function priceFields() {
  const amount = field({
    pointer: '#/branding/price',
    label: 'Price',
    hint: 'Such as 19.90, with a point. Empty = no price on the page.',
    attributes: { inputmode: 'decimal' },
  });
  const currency = field({
    pointer: '#/branding/currency',
    label: 'Currency of the price',
    hint: 'Such as EUR.',
  });
  const shown = el('p', { class: 'hint', 'aria-live': 'polite' });
  currency.root.append(shown);
  const codeNow = () => textOf(currency).toUpperCase();
  const show = () => {
    const code = codeNow();
    const value = minorUnitsIn(textOf(amount), code);
    const isPrice = Number.isSafeInteger(value) && /^[A-Z]{3}$/.test(code);
    write(shown, isPrice ? `Shoppers see ${moneyText(Number(value), code)}.` : '');
  };
  for (const { input } of [amount, currency]) input.addEventListener('input', show);
  return {
    fields: [amount, currency],
    /** @throws Refused if the amount is not a price in this currency */
    value() {
      const [text, code] = [textOf(amount), codeNow()];
      if (text === '') return code === '' ? {} : { currency: code };
      const value = minorUnitsIn(text, code);
      if (value === null)
        throw new Refused(400, 'invalid_request', '', [{ pointer: amount.pointer, detail: whyNoPrice(text, code) }]);
      return { price: value, currency: code };
    },
    fill(price: number | undefined, code: string) {
      amount.input.value = price === undefined ? '' : majorText(price, code);
      currency.input.value = code;
      show();
    },
  };
}

/** Shows a refusal of the form itself at its fields. */
function showRefusal({ errors }: Refused, fields: readonly Field[]): void {
  for (const { input, error, pointer } of fields) {
    const own = errors.find((one) => one.pointer === pointer);
    error.textContent = own ? `${own.detail[0]?.toUpperCase()}${own.detail.slice(1)}.` : '';
    if (own) input.setAttribute('aria-invalid', 'true');
    else input.removeAttribute('aria-invalid');
  }
}

/** Why a typed price is refused, in words. */
function whyNoPrice(text: string, code: string): string {
  const digits = minorDigits(code);
  if (!/^\d+\.\d+$/.test(text))
    return `must be a number such as ${digits === 0 ? '19' : '19.90'}, with a point and without spaces`;
  if (digits === 0) return `must be a whole number, because ${code} has no decimals`;
  return `must have at most ${digits} digits behind the point`;
}

/** Buttons in the accent as the sale page shows them in light and in dark. */
function colourPreview(accent: Field): { root: HTMLElement; show(): void } {
  const samples = Object.entries(CARD_GROUNDS).map(([mode, ground]) => {
    const sample = el('span', { class: 'swatch', 'data-mode': mode }, `Button in ${mode} mode`);
    return { ground, sample };
  });
  const root = el('p', { class: 'swatches', role: 'group', 'aria-label': 'The colour on the sale page' });
  root.append(...samples.map(({ sample }) => sample));
  const show = () => {
    const colour = textOf(accent);
    root.hidden = !COLOUR_PATTERN.test(colour);
    if (root.hidden) return;
    for (const { ground, sample } of samples) {
      sample.style.background = colour;
      sample.style.color = inkOn(colour);
      sample.style.border = `1px solid ${readableOn(colour, ground)}`;
      sample.style.outlineColor = ground;
    }
  };
  accent.input.addEventListener('input', show);
  show();
  return { root, show };
}
