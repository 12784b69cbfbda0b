import { countdownOf } from '../../client/countdown.js';
import { timeFormat, zoneName } from '../../shared/sale-page/sale-words.js';
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

/** Formats a time, with its zone if asked for, and with the day unless it is today by the server's clock. */
export function timeText(iso: string, nowMs: number, zone?: boolean): string {
  const time = new Date(iso);
  return timeFormat(locale, time.toDateString() === new Date(nowMs).toDateString(), zone).format(time);
}

/** The name of the shopper's time zone. */
export const zoneText = (): string => zoneName(locale);

export function numberText(value: number): string {
  return new Intl.NumberFormat(locale).format(value);
}

/**
 * The three figures of a countdown with their units: days, hours and minutes, and below a day hours, minutes and
 * seconds.
 */
export function figuresOf(leftMs: number): [value: string, unit: string][] {
  const { days, clock } = countdownOf(leftMs);
  const parts = clock.split(':').map(Number);
  const [hours, minutes, seconds] = [...Array(3 - parts.length).fill(0), ...parts] as [number, number, number];
  const figures: [number, string][] =
    days > 0
      ? [
          [days, 'day'],
          [hours, 'hour'],
          [minutes, 'minute'],
        ]
      : [
          [hours, 'hour'],
          [minutes, 'minute'],
          [seconds, 'second'],
        ];
  return figures.map(([value, unit], i) => [
    i === 0 ? String(value) : String(value).padStart(2, '0'),
    unitText(value, unit),
  ]);
}

/** Some languages have a word for two of a unit, without a number: then the word for several is used. */
function unitText(value: number, unit: string): string {
  const format = new Intl.NumberFormat(locale, { style: 'unit', unit, unitDisplay: 'long' });
  const parts = [value, 3]
    .map((one) => format.formatToParts(one))
    .find((all) => all.some(({ type }) => type === 'integer'));
  return parts?.find(({ type }) => type === 'unit')?.value ?? '';
}
