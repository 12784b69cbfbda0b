import { timeFormat } from '../../shared/sale-page/sale-words.js';
import type { Texts } from '../../shared/sale-page/texts.js';

/** What the server put into the page: its language, and settings of the campaign. */
export type PageData = {
  language: string;
  texts: Texts;
  /** null = the name of the campaign */
  title: string | null;
  /** Whether the page opens the page to pay by itself. */
  forward: boolean;
  /** Public key for notifications; null = the server sends none. */
  pushKey: string | null;
};

export const page = JSON.parse(document.body.dataset.page ?? '{}') as PageData;
export const { texts, language } = page;
/** The region determines the format of times and numbers. */
const locale = navigator.languages.find((tag) => tag.toLowerCase().startsWith(language)) ?? language;

/** Formats a time with its zone, and with the day unless it is today by the server's clock. */
export function timeText(iso: string, nowMs: number): string {
  const time = new Date(iso);
  return timeFormat(locale, time.toDateString() === new Date(nowMs).toDateString()).format(time);
}

export function daysText(days: number): string {
  return new Intl.NumberFormat(locale, { style: 'unit', unit: 'day', unitDisplay: 'long' }).format(days);
}

export function numberText(value: number): string {
  return new Intl.NumberFormat(locale).format(value);
}
