import { timeFormat } from '../../shared/sale-page/sale-words.js';
import { fill, type Texts } from '../../shared/sale-page/texts.js';

type Key = Exclude<keyof Texts, 'problems'>;

/** The texts that a line of the panel may have. */
const HEADLINES = [
  ...([
    'loading',
    'unknown',
    'opensIn',
    'open',
    'trying',
    'paused',
    'ended',
    'soldOut',
    'inLine',
    'lineFull',
    'yourTurn',
  ] as const),
  ...(['gotOne', 'paid', 'released', 'expired', 'left', 'closed'] as const),
] satisfies Key[];
const STATUSES = [
  ...(['statusBefore', 'statusOpen', 'statusLine', 'statusReserved', 'statusPaid', 'statusTimeUp'] as const),
  ...(['statusPaused', 'statusEnded', 'statusClosed', 'statusSilent', 'statusUnknown'] as const),
] satisfies Key[];
const CAPTIONS = [
  'unknownCaption',
  'endedDetail',
  'endsAt',
  'payBefore',
  'paidAt',
  'endedAt',
  'pausedAt',
  'noNews',
] satisfies Key[];
const DETAILS = [
  ...([
    'opensDetail',
    'openDetail',
    'openNoLine',
    'tryingDetail',
    'pausedDetail',
    'endedNote',
    'soldOutDetail',
  ] as const),
  ...([
    'soldOutFinal',
    'lineFullDetail',
    'inLineDetail',
    'otherDevice',
    'payDetail',
    'payOrNext',
    'payOrOthers',
    'forwarding',
  ] as const),
  ...([
    'timeUp',
    'nothingToPay',
    'paidDetail',
    'releasedDetail',
    'releasedNoLine',
    'expiredDetail',
    'expiredNext',
  ] as const),
  ...([
    'expiredNoLine',
    'leftDetail',
    'closedDetail',
    'closedEnded',
    'unknownDetail',
    'silent',
    'silentInLine',
    'polling',
  ] as const),
  ...(['offlineNow', 'offline', 'retry', 'notifyBlocked', 'notifyFailed', 'linkCopied', 'orderCopied'] as const),
] satisfies Key[];
const HINTS = ['noHurry', 'paidAlready', 'unknownHint'] satisfies Key[];

/** How many of the longest texts are measured: which of them needs the most lines depends on where they break. */
const MEASURED = 5;
/** A time with a long day, month and zone. */
const LONG_TIME = new Date('2026-09-30T17:00:00Z');
const LONG_ZONE = 'Asia/Kolkata';

/**
 * The longest texts of each line of the panel in a language. The page gives each line the height of the highest of
 * them, so that nothing moves when the state changes, with any texts and any font.
 */
export function linesOf(
  texts: Texts,
  language: string,
): Record<'bar' | 'headline' | 'caption' | 'detail' | 'hint', string[]> {
  const time = timeFormat(language, false, true, LONG_ZONE).format(LONG_TIME);
  const clock = timeFormat(language, true, false, LONG_ZONE).format(LONG_TIME);
  const values = { time, seconds: 120, minutes: 120 };
  const longest = (all: string[], count = MEASURED) =>
    all
      .map((text) => fill(text, values))
      .sort((a, b) => b.length - a.length)
      .slice(0, count);
  const of = (keys: Key[]) => keys.map((key) => texts[key]);
  return {
    bar: [...longest(of(STATUSES), 1), fill(texts.updated, values)],
    headline: longest(of(HEADLINES)),
    caption: longest([...of(CAPTIONS), fill(texts.wait, { ...values, time: clock }), time]),
    detail: longest([...of(DETAILS), ...Object.values(texts.problems)]),
    hint: longest(of(HINTS)),
  };
}
