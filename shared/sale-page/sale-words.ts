import type { SalePhase } from '../domain/phase.js';
import { fill, type Texts } from './texts.js';

/** What anyone may know of a sale. */
type Facts = { starts_at: string; ends_at: string | null; has_line: boolean; sold_out: boolean };

/** How the panel looks: the turn of the shopper, something achieved, something to know, or an end. */
export type Mood = 'plain' | 'turn' | 'good' | 'warn' | 'off';
/** The door of a page without a picture: before the start, while units or places may be had, and after that. */
export type Door = 'ajar' | 'open' | 'shut';

/** `button`: its label, and whether it can be pressed; null = there is nothing to press. `status`: one or two words. */
export type SaleWords = {
  status: string;
  headline: string;
  detail: string;
  button: { label: string; enabled: boolean } | null;
  mood: Mood;
  door: Door;
};

/**
 * What the page shows to a visitor without a place or unit. The server renders it first, and the script of the page
 * shows the same.
 * @param time formats an RFC 3339 time
 */
export function saleWords(phase: SalePhase, sale: Facts, texts: Texts, time: (iso: string) => string): SaleWords {
  const over = { status: texts.statusEnded, mood: 'off', door: 'shut', button: null } as const;
  if (phase === 'ended') return { ...over, headline: texts.ended, detail: texts.endedDetail };
  if (phase === 'not_started' || phase === 'draft') {
    const starts = time(sale.starts_at);
    const button = { label: fill(texts.opensButton, { time: starts }), enabled: false };
    const detail = fill(texts.opensAt, { time: starts });
    return { status: texts.statusBefore, headline: texts.notYet, detail, button, mood: 'plain', door: 'ajar' };
  }
  if (phase === 'paused') {
    const button = { label: texts.buy, enabled: false };
    const words = { status: texts.statusPaused, headline: texts.paused, detail: texts.pausedDetail };
    return { ...words, button, mood: 'warn', door: 'ajar' };
  }
  // With a line, no unit can return soon. Without one, a unit may become free.
  if (sale.sold_out)
    return { ...over, headline: texts.soldOut, detail: sale.has_line ? texts.soldOutFinal : texts.soldOutDetail };
  const open = sale.has_line ? texts.openDetail : texts.openNoLine;
  const detail = sale.ends_at ? `${open} ${fill(texts.endsAt, { time: time(sale.ends_at) })}` : open;
  const button = { label: texts.buy, enabled: true };
  return { status: texts.statusOpen, headline: texts.open, detail, button, mood: 'plain', door: 'open' };
}

/** The days of a far time, its weekday and its zone. @param isToday whether the day is left out */
export function timeFormat(locale: string, isToday: boolean, timeZone?: string): Intl.DateTimeFormat {
  const day = isToday ? {} : ({ weekday: 'short', day: 'numeric', month: 'short' } as const);
  const clock = { hour: '2-digit', minute: '2-digit', timeZoneName: 'short' } as const;
  return new Intl.DateTimeFormat(locale, { ...day, ...clock, ...(timeZone ? { timeZone } : {}) });
}
