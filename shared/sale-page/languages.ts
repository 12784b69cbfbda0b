import { en, type Texts } from './texts.js';
import { ar } from './translations/ar.js';
import { id } from './translations/id.js';
import { zh } from './translations/zh.js';

/** A language of the page. `dir`: the direction of its script. */
export type PageLanguage = { name: string; dir: 'ltr' | 'rtl'; texts: Texts };

/** The built-in languages. */
export const LANGUAGES = {
  en: { name: 'English', dir: 'ltr', texts: en },
  id: { name: 'Bahasa Indonesia', dir: 'ltr', texts: id },
  zh: { name: '中文', dir: 'ltr', texts: zh },
  ar: { name: 'العربية', dir: 'rtl', texts: ar },
} as const satisfies Record<string, PageLanguage>;

/** The languages of a page by their tags. */
export type PageLanguages = ReadonlyMap<string, PageLanguage>;

/** Scripts that are written from right to left. */
const RIGHT_TO_LEFT = ['Arab', 'Hebr', 'Syrc', 'Thaa', 'Nkoo', 'Adlm'];

/** Adds the texts of a campaign. A language that is new takes the other texts from English. */
export function withTexts(languages: PageLanguages, added: Record<string, Partial<Texts>>): PageLanguages {
  const all = new Map(languages);
  for (const [tag, texts] of Object.entries(added)) {
    const known = languages.get(tag) ?? { name: ownName(tag), dir: directionOf(tag), texts: en };
    all.set(tag, { ...known, texts: { ...known.texts, ...texts } });
  }
  return all;
}

export function directionOf(tag: string): 'ltr' | 'rtl' {
  return RIGHT_TO_LEFT.includes(new Intl.Locale(tag).maximize().script ?? '') ? 'rtl' : 'ltr';
}

/** The name of a language in itself, or its tag. */
export function ownName(tag: string): string {
  return new Intl.DisplayNames([tag], { type: 'language' }).of(tag) ?? tag;
}

/** The first of these tags that the page has, else English. Regions are ignored. */
export function languageOf(preferred: readonly string[], languages: PageLanguages): string {
  const wanted = preferred.map((tag) => tag.trim().toLowerCase().split('-')[0] ?? '');
  return wanted.find((tag) => languages.has(tag)) ?? 'en';
}

/** The languages of `Accept-Language`, the preferred ones first. */
export function acceptedLanguages(header: string): string[] {
  const given = header.split(',', 20).map((part) => {
    const [tag = '', q = ''] = part.split(';');
    return { tag: tag.trim(), weight: q ? Number(q.replace(/^\s*q=/, '')) || 0 : 1 };
  });
  return given.sort((a, b) => b.weight - a.weight).map(({ tag }) => tag);
}
