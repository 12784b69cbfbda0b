import type { SalePhase } from '../domain/phase.js';
import { fill, type Texts } from './texts.js';

/** What anyone may know of a sale. */
type Facts = { starts_at: string; ends_at: string | null; has_line: boolean; sold_out: boolean };

/** `button`: its label, and whether it can be pressed; null = there is nothing to press. */
export type SaleWords = { headline: string; detail: string; button: { label: string; enabled: boolean } | null };

/**
 * What the page shows to a visitor without a place or unit. The server renders it first, and the script of the page
 * shows the same.
 * @param time formats an RFC 3339 time
 */
export function saleWords(phase: SalePhase, sale: Facts, texts: Texts, time: (iso: string) => string): SaleWords {
  if (phase === 'ended') return { headline: texts.ended, detail: texts.endedDetail, button: null };
  if (phase === 'not_started' || phase === 'draft') {
    const starts = time(sale.starts_at);
    const button = { label: fill(texts.opensButton, { time: starts }), enabled: false };
    return { headline: texts.notYet, detail: fill(texts.opensAt, { time: starts }), button };
  }
  if (phase === 'paused') {
    return { headline: texts.paused, detail: texts.pausedDetail, button: { label: texts.buy, enabled: false } };
  }
  // With a line, no unit can return soon. Without one, a unit may become free.
  if (sale.sold_out)
    return { headline: texts.soldOut, detail: sale.has_line ? texts.soldOutFinal : texts.soldOutDetail, button: null };
  const open = sale.has_line ? texts.openDetail : texts.openNoLine;
  const detail = sale.ends_at ? `${open} ${fill(texts.endsAt, { time: time(sale.ends_at) })}` : open;
  return { headline: texts.open, detail, button: { label: texts.buy, enabled: true } };
}

/** The days of a far time, its weekday and its zone. @param isToday whether the day is left out */
export function timeFormat(locale: string, isToday: boolean, timeZone?: string): Intl.DateTimeFormat {
  const day = isToday ? {} : ({ weekday: 'short', day: 'numeric', month: 'short' } as const);
  const clock = { hour: '2-digit', minute: '2-digit', timeZoneName: 'short' } as const;
  return new Intl.DateTimeFormat(locale, { ...day, ...clock, ...(timeZone ? { timeZone } : {}) });
}
