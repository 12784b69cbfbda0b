import type { SalePhase } from '../domain/phase.js';
import { fill, type Texts } from './texts.js';

/** What anyone may know of a sale. */
type Facts = { starts_at: string; ends_at: string | null; has_line: boolean; sold_out: boolean };

/** Formats an RFC 3339 time, with the day unless it is today. `zone`: whether its zone is named (default: true). */
export type TimeText = (iso: string, zone?: boolean) => string;

/** How the panel looks: the turn of the shopper, something achieved, something to know, or an end. */
export type Mood = 'plain' | 'turn' | 'good' | 'warn' | 'off';
/** The door of a page without a picture: before the start, while units or places may be had, and after that. */
export type Door = 'ajar' | 'open' | 'shut';

/**
 * `status`: one or two words. `caption`: when, in a line. `hint`: below the action. `title`: of the window.
 * `button`: its label, and whether it can be pressed; null = there is nothing to press.
 */
export type SaleWords = {
  status: string;
  headline: string;
  caption: string;
  detail: string;
  hint: string;
  title: string;
  button: { label: string; enabled: boolean } | null;
  mood: Mood;
  door: Door;
};

/**
 * What the page shows to a visitor without a place or unit. The server renders it first, and the script of the page
 * shows the same.
 * @param nowMs by the server's clock
 */
export function saleWords(phase: SalePhase, sale: Facts, texts: Texts, time: TimeText, nowMs: number): SaleWords {
  const words = wordsOf(phase, sale, texts, time, nowMs);
  return { caption: '', hint: '', title: words.headline, ...words };
}

type Words = Omit<SaleWords, 'caption' | 'hint' | 'title'> & Partial<SaleWords>;

function wordsOf(phase: SalePhase, sale: Facts, texts: Texts, time: TimeText, nowMs: number): Words {
  const over = { status: texts.statusEnded, mood: 'off', door: 'shut' } as const;
  if (phase === 'ended') {
    const button = { label: closedLabel(sale, texts, time, nowMs), enabled: false };
    const words = { headline: texts.ended, caption: texts.endedDetail, detail: texts.endedNote };
    return { ...over, ...words, status: texts.statusClosed, button };
  }
  if (phase === 'not_started' || phase === 'draft') {
    const opens = fill(texts.opensButton, { time: time(sale.starts_at, false) });
    const caption = time(sale.starts_at);
    const words = { status: texts.statusBefore, headline: texts.opensIn, caption, detail: texts.opensDetail };
    return { ...words, title: opens, button: { label: opens, enabled: false }, mood: 'plain', door: 'ajar' };
  }
  if (phase === 'paused') {
    const button = { label: texts.buy, enabled: false };
    const words = { status: texts.statusPaused, headline: texts.paused, detail: texts.pausedDetail };
    return { ...words, title: texts.statusPaused, button, mood: 'warn', door: 'ajar' };
  }
  if (sale.sold_out) {
    // With a line, no unit can return soon. Without one, a unit may become free.
    const button = sale.has_line ? null : { label: texts.again, enabled: true };
    const detail = sale.has_line ? texts.soldOutFinal : texts.soldOutDetail;
    return { ...over, headline: texts.soldOut, detail, button };
  }
  return {
    ...{ status: texts.statusOpen, headline: texts.open, title: texts.statusOpen, mood: 'plain', door: 'open' },
    caption: sale.ends_at ? fill(texts.endsAt, { time: time(sale.ends_at) }) : '',
    detail: sale.has_line ? texts.openDetail : texts.openNoLine,
    hint: sale.has_line ? texts.noHurry : '',
    button: { label: texts.buy, enabled: true },
  };
}

/** The label of the button after the end. When an operator closed a sale before its end is not public. */
function closedLabel({ ends_at }: Pick<Facts, 'ends_at'>, texts: Texts, time: TimeText, nowMs: number): string {
  const isPast = ends_at !== null && Date.parse(ends_at) <= nowMs;
  return isPast ? fill(texts.closedButton, { time: time(ends_at, false) }) : texts.statusClosed;
}

/** What is said of a sale that does not exist. */
export function unknownWords(texts: Texts): SaleWords {
  const words = { headline: texts.unknown, caption: texts.unknownCaption, detail: texts.unknownDetail };
  const look = { mood: 'off', door: 'shut', button: null } as const;
  return { ...look, ...words, status: texts.statusUnknown, hint: texts.unknownHint, title: texts.unknown };
}

/** The name of a time zone, or of the reader's own, in a language: the one for all seasons, where there is one. */
export function zoneName(locale: string, timeZone?: string): string {
  const nameOf = (timeZoneName: 'long' | 'longGeneric') => {
    const format = new Intl.DateTimeFormat(locale, { timeZoneName, ...(timeZone ? { timeZone } : {}) });
    return format.formatToParts().find(({ type }) => type === 'timeZoneName')?.value ?? '';
  };
  const generic = nameOf('longGeneric');
  // Without a generic name it is an offset.
  return /\d/.test(generic) ? nameOf('long') : generic;
}

/**
 * The days of a far time, its weekday and its zone.
 * @param isToday whether the day is left out @param zone whether the time zone is named
 */
export function timeFormat(locale: string, isToday: boolean, zone = true, timeZone?: string): Intl.DateTimeFormat {
  const day = isToday ? {} : ({ weekday: 'short', day: 'numeric', month: 'short' } as const);
  const clock = { hour: '2-digit', minute: '2-digit', ...(zone ? ({ timeZoneName: 'short' } as const) : {}) } as const;
  return new Intl.DateTimeFormat(locale, { ...day, ...clock, ...(timeZone ? { timeZone } : {}) });
}
