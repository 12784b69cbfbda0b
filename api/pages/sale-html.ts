import type { Branding } from '../../shared/domain/branding.js';
import { CARD_GROUNDS, inkOn, readableOn } from '../../shared/domain/colour.js';
import { minorDigits } from '../../shared/domain/money.js';
import type { PageLanguage, PageLanguages } from '../../shared/sale-page/languages.js';
import {
  type Door,
  type SaleWords,
  saleWords,
  type TimeText,
  timeFormat,
  unknownWords,
  zoneName,
} from '../../shared/sale-page/sale-words.js';
import { fill, type Texts } from '../../shared/sale-page/texts.js';
import type { FoundSale } from './public-sales.js';
import { linesOf } from './sale-lines.js';

/**
 * What one version of the page shows. `product`: "" = what was asked for cannot be an id. `found`: null = no such sale;
 * undefined = the sale cannot be read now.
 */
export type PageContents = {
  product: string;
  found: FoundSale | null | undefined;
  languages: PageLanguages;
  language: string;
  /** Public key for notifications; null = there are none. */
  pushKey: string | null;
};

/**
 * Renders the sale page: its first paint has the name and the state, and previews in messengers have title and picture.
 * Every value is escaped.
 * @param template pages/sale/sale.html after the build
 */
export function saleHtml(template: string, contents: PageContents): string {
  const { found, languages, language } = contents;
  const { texts, dir } = languages.get(language) as PageLanguage;
  const branding = found?.branding ?? {};
  const name = branding.title ?? found?.sale.name ?? (contents.product || texts.flashSale);
  const words = firstWords(found, texts, language);
  const values: Record<string, string> = {
    language,
    dir,
    name,
    title: `${words.title} – ${name}`,
    page: JSON.stringify({
      language,
      texts,
      title: branding.title ?? null,
      forward: branding.forward_to_checkout === true,
      pushKey: contents.pushKey,
    }),
    status: words.status,
    mood: words.mood,
    headline: words.headline,
    caption: words.caption,
    detail: words.detail,
    hint: words.hint,
    referenceLabel: texts.sale,
    product: contents.product,
    act: words.button?.label ?? '',
    sound: texts.sound,
    languages: texts.languages,
    noneFree: texts.noneFree,
    limit: found?.perUserLimit
      ? fill(texts.perPerson, { count: new Intl.NumberFormat(language).format(found.perUserLimit) })
      : '',
    noScript: texts.noScript,
    continueElsewhere: texts.continueElsewhere,
    zone: found ? fill(texts.zone, { zone: zoneName(language, found.timeZone) }) : '',
  };
  const blocks: Record<string, string> = {
    preview: found ? preview(name, branding, words.title) : '<meta name="robots" content="noindex">',
    colours: colours(branding),
    shop: shop(branding, texts),
    picture: picture(branding, words.door),
    price: price(branding, language),
    description: branding.description
      ? `<p class="description" dir="auto">${escapeHtml(branding.description)}</p>`
      : '',
    noAct: words.button ? '' : 'hidden',
    steps: found && found.sale.status !== 'ended' ? steps(found, texts, language) : '',
    languageOptions: languageOptions(languages, language),
    noStock: found?.sale.sold_out && found.sale.status === 'open' ? '' : 'hidden',
    legal: legal(branding, texts),
    manifest: found && contents.pushKey ? manifest(contents.product, language, branding) : '',
    calendar: found?.sale.status === 'scheduled' ? calendarLink(contents.product, texts) : '',
  };
  for (const [line, widest] of Object.entries(linesOf(texts, language))) {
    blocks[`${line}Sizes`] = widest.map((text) => `<i data-t="${escapeHtml(text)}"></i>`).join('');
  }
  blocks.barSizes = `<p>${blocks.barSizes}</p>`;
  // The line has the height of both ids that it may have.
  const references = [
    [texts.order, LONG_ORDER],
    [texts.sale, contents.product],
  ] as const;
  blocks.referenceSizes = references
    .map(([label, id]) => `<span><i data-t="${escapeHtml(label)}"></i> <code><i data-t="${id}"></i></code></span>`)
    .join('');
  return template
    .replace(/\{\{\{(\w+)\}\}\}/g, (_, block: string) => blocks[block] ?? '')
    .replace(/\{\{(\w+)\}\}/g, (_, value: string) => escapeHtml(values[value] ?? ''));
}

/** As long as an order id that the service makes. */
const LONG_ORDER = `ord_${'8'.repeat(32)}`;
const LOADING = { status: '', caption: '', detail: '', hint: '' };

function firstWords(found: PageContents['found'], texts: Texts, language: string): SaleWords {
  if (found === null) return unknownWords(texts);
  if (!found) return { ...unknownWords(texts), ...LOADING, headline: texts.loading, title: texts.loading };
  const { status, ...sale } = found.sale;
  const phase = status === 'scheduled' ? 'not_started' : status;
  // In the time zone of the campaign: the server does not know that of the visitor.
  const time: TimeText = (iso, zone) => timeFormat(language, false, zone, found.timeZone).format(new Date(iso));
  return saleWords(phase, sale, texts, time, Date.parse(sale.server_time));
}

function preview(name: string, branding: Branding, headline: string): string {
  const description = branding.description ?? headline;
  const tags: [string, string | undefined][] = [
    ['og:type', 'website'],
    ['og:title', name],
    ['og:description', description],
    ['og:image', branding.image_url],
    ['og:image:alt', branding.image_url && branding.image_alt],
    ['og:site_name', branding.shop_name],
  ];
  const properties = tags.flatMap(([key, value]) =>
    value ? [`<meta property="${key}" content="${escapeHtml(value)}">`] : [],
  );
  const card = branding.image_url ? 'summary_large_image' : 'summary';
  return [
    `<meta name="description" content="${escapeHtml(description)}">`,
    ...properties,
    `<meta name="twitter:card" content="${card}">`,
  ].join('\n');
}

/** The colour of the brand as variables. Text in the accent, and on the fill, has a contrast of 4.5 with any colour. */
function colours({ accent }: Branding): string {
  if (!accent) return '';
  const of = (ground: string) => {
    return `--accent:${readableOn(accent, ground)}`;
  };
  const dark = `@media (prefers-color-scheme:dark){:root{${of(CARD_GROUNDS.dark)}}}`;
  return `<style>:root{--fill:${accent};--on-fill:${inkOn(accent)};${of(CARD_GROUNDS.light)}}${dark}</style>`;
}

/** A door, as in the picture of a page without one. */
const MARK =
  '<svg width="18" height="22" viewBox="0 0 20 24" aria-hidden="true"><path class="wall" d="M1 23V10a9 9 0 0 1 18 0v13z"/><path class="light" d="M6 23V11a4 4 0 0 1 8 0v12z"/></svg>';

function shop({ logo_url, shop_name, shop_url }: Branding, texts: Texts): string {
  const name = shop_name ?? (shop_url ? texts.toShop : texts.flashSale);
  const inside = logo_url
    ? `<img class="logo" src="${escapeHtml(logo_url)}" alt="${escapeHtml(name)}">`
    : `${shop_name ? '' : MARK}${escapeHtml(name)}`;
  return shop_url ? `<a href="${escapeHtml(shop_url)}">${inside}</a>` : `<span>${inside}</span>`;
}

/** The picture, or a door in the colour of the brand. */
function picture({ image_url, image_alt = '' }: Branding, door: Door): string {
  if (image_url) return `<img class="picture" src="${escapeHtml(image_url)}" alt="${escapeHtml(image_alt)}">`;
  return `<div class="picture door" data-door="${door}" aria-hidden="true"></div>`;
}

function price({ price: amount, currency }: Branding, language: string): string {
  if (amount === undefined || currency === undefined) return '';
  const digits = minorDigits(currency);
  const value = amount / 10 ** digits;
  // People write some currencies without the digits that ISO 4217 has, such as rupiah.
  const exact = Number.isInteger(value) ? {} : { minimumFractionDigits: digits };
  const text = new Intl.NumberFormat(language, { style: 'currency', currency, ...exact }).format(value);
  return `<span class="price">${escapeHtml(text)}</span>`;
}

function steps({ sale }: FoundSale, texts: Texts, language: string): string {
  const { has_line, hold_seconds } = sale;
  const all: [step: string, title: string, text: string][] = [
    ['buy', texts.stepBuyTitle, has_line ? texts.stepBuy : texts.stepBuyNoLine],
  ];
  if (has_line) all.push(['wait', texts.stepWaitTitle, texts.stepWait]);
  if (hold_seconds !== undefined) all.push(['pay', ...payStep(hold_seconds, texts, language)]);
  const items = all
    .map(([step, title, text]) => `<li data-step="${step}"><p><b>${escapeHtml(title)}</b> ${escapeHtml(text)}</p></li>`)
    .join('');
  return `<section id="steps" aria-labelledby="steps-title"><h2 id="steps-title">${escapeHtml(texts.nextSteps)}</h2><ol>${items}</ol></section>`;
}

function payStep(holdSeconds: number, texts: Texts, language: string): [title: string, text: string] {
  if (holdSeconds === 0) return [texts.stepFreeTitle, texts.stepFree];
  const [value, unit] =
    holdSeconds < 120
      ? [holdSeconds, 'second']
      : holdSeconds < 7_200
        ? [holdSeconds / 60, 'minute']
        : [holdSeconds / 3_600, 'hour'];
  const format = new Intl.NumberFormat(language, { style: 'unit', unit: String(unit), unitDisplay: 'long' });
  const time = format.format(Math.floor(Number(value)));
  return [fill(texts.stepPayTitle, { time }), fill(texts.stepPay, { time })];
}

/** Notifications on iPhones need the page on the Home Screen. */
function manifest(product: string, language: string, { logo_url }: Branding): string {
  const href = `/sale/${encodeURIComponent(product)}/manifest.webmanifest?lang=${language}`;
  const icon = logo_url ? `<link rel="apple-touch-icon" href="${escapeHtml(logo_url)}">` : '';
  return `<link rel="manifest" href="${escapeHtml(href)}">${icon}`;
}

function languageOptions(languages: PageLanguages, current: string): string {
  return [...languages]
    .map(([tag, { name }]) => {
      const mark = tag === current ? ' selected' : '';
      return `<option value="${tag}" lang="${tag}"${mark}>${escapeHtml(name)}</option>`;
    })
    .join('');
}

/** Its script hides it when the sale opens. */
function calendarLink(product: string, texts: Texts): string {
  return `<a id="calendar" href="/sale/${encodeURIComponent(product)}/start.ics">${escapeHtml(texts.calendar)}</a>`;
}

function legal({ contact_url, terms_url, privacy_url, shop_url }: Branding, texts: Texts): string {
  const links = [
    [shop_url, texts.toShop],
    [contact_url, texts.contact],
    [terms_url, texts.terms],
    [privacy_url, texts.privacy],
  ] as const;
  const given = links.flatMap(([url, label]) => (url ? [`<a href="${escapeHtml(url)}">${escapeHtml(label)}</a>`] : []));
  return given.length > 0 ? `<p id="legal">${given.join(' ')}</p>` : '';
}

const ENTITIES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };

/** Escapes a text for HTML, in elements and in quoted attributes; braces too, because the template uses them. */
export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (found) => ENTITIES[found] as string).replace(/\{/g, '&#123;');
}
