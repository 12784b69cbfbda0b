import { minorDigits } from '../../shared/domain/money.js';
import { count, duration } from './words.js';

/** A minute of GET …/history. */
export type Minute = {
  minute: string;
  reserved: number;
  joined: number;
  promoted: number;
  paid: number;
  paid_units: number;
  expired: number;
  released: number;
  refunded: number;
  median_wait_seconds: number | null;
  /** In minor units of the currency; null = the campaign had no price. */
  revenue: number | null;
  currency: string | null;
};
export type SaleAction = { at: string; by: string; action: string };
export type SaleHistory = { from: string; to: string; minutes: Minute[]; actions: SaleAction[] };

const sumOf = (minutes: readonly Minute[], of: (one: Minute) => number): number =>
  minutes.reduce((sum, one) => sum + of(one), 0);

/** The report of a sale: its numbers by their labels. */
export function reportOf({ minutes }: SaleHistory): [string, string][] {
  const units = sumOf(minutes, ({ paid_units }) => paid_units);
  const gotOne = sumOf(minutes, ({ reserved, promoted }) => reserved + promoted);
  const paid = sumOf(minutes, (one) => one.paid);
  const waits = minutes.flatMap(({ median_wait_seconds }) => median_wait_seconds ?? []);
  return [
    ['Units sold', count(units)],
    ...revenueOf(minutes),
    ['Reservations', count(gotOne)],
    ['Paid', gotOne === 0 ? count(paid) : `${count(paid)} (${Math.round((paid / gotOne) * 100)} %)`],
    ['Time to pay ran out', count(sumOf(minutes, ({ expired }) => expired))],
    ['Released', count(sumOf(minutes, ({ released }) => released))],
    ['Refunded', count(sumOf(minutes, ({ refunded }) => refunded))],
    ['Joined the line', count(sumOf(minutes, ({ joined }) => joined))],
    ['Promoted from the line', count(sumOf(minutes, ({ promoted }) => promoted))],
    ['Longest median wait of a minute', waits.length === 0 ? '–' : duration(Math.max(...waits) * 1000)],
  ];
}

/** One line with the revenue in each currency; none when the campaign never had a price. */
function revenueOf(minutes: readonly Minute[]): [string, string][] {
  const sums = new Map<string, number>();
  for (const { revenue, currency } of minutes)
    if (revenue !== null && currency !== null) sums.set(currency, (sums.get(currency) ?? 0) + revenue);
  if (sums.size === 0) return [];
  const texts = [...sums].map(([currency, amount]) => moneyText(amount, currency));
  return [['Revenue, at the price of the sale page', texts.join(' + ')]];
}

/** An amount in minor units as text. */
export function moneyText(amount: number, currency: string): string {
  return new Intl.NumberFormat('en-GB', { style: 'currency', currency }).format(amount / 10 ** minorDigits(currency));
}

const MAX_POINTS = 10_081;

/** The lines of the chart, with zeros for the minutes in which nothing happened. Times are in seconds. */
export function linesOf({ minutes }: SaleHistory): number[][] {
  const [first, last] = [minutes[0], minutes.at(-1)];
  if (!first || !last) return [[], [], [], [], []];
  const start = Date.parse(first.minute) / 60_000;
  const length = Math.min(MAX_POINTS, Date.parse(last.minute) / 60_000 - start + 2);
  const lines = [
    Array.from({ length }, (_, i) => (start + i) * 60),
    ...Array.from({ length: 4 }, () => new Array<number>(length).fill(0)),
  ];
  for (const one of minutes) {
    const i = Date.parse(one.minute) / 60_000 - start;
    const values = [one.reserved + one.promoted, one.paid, one.joined, one.expired];
    for (const [series, value] of values.entries()) (lines[series + 1] as number[])[i] = value;
  }
  return lines;
}

const ACTIONS: Record<string, string> = { amend: 'terms changed', hide: 'hidden', unhide: 'listed' };

/** What was done to a campaign, in a word or two. */
export function actionText(action: string): string {
  const verb = action.replace('campaign.', '');
  return ACTIONS[verb] ?? `${verb}${verb.endsWith('e') ? 'd' : 'ed'}`;
}
