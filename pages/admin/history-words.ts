import { minorDigits } from '../../shared/domain/money.js';
import { count, duration, time } from './words.js';

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

/** The parts of GET …/report that the page shows. */
export type SaleReport = Pick<
  Minute,
  'joined' | 'promoted' | 'paid' | 'paid_units' | 'expired' | 'released' | 'refunded' | 'median_wait_seconds'
> & {
  reservations: number;
  paid_percent: number | null;
  busiest_minute: string | null;
  busiest_minute_claims: number | null;
  revenue: { currency: string; amount: number }[];
};

/** The report of a sale: its numbers by their labels. */
export function reportOf(of: SaleReport): [string, string][] {
  const { median_wait_seconds: wait, busiest_minute: busiest } = of;
  const revenue = of.revenue.map(({ amount, currency }) => moneyText(amount, currency)).join(' + ');
  return [
    ['Units sold', count(of.paid_units)],
    ...(revenue === '' ? [] : [['Revenue, at the price of the sale page', revenue] satisfies [string, string]]),
    ['Reservations', count(of.reservations)],
    ['Paid', of.paid_percent === null ? count(of.paid) : `${count(of.paid)} (${Math.round(of.paid_percent)} %)`],
    ['Time to pay ran out', count(of.expired)],
    ['Released', count(of.released)],
    ['Refunded', count(of.refunded)],
    ['Joined the line', count(of.joined)],
    ['Promoted from the line', count(of.promoted)],
    ['Median wait', wait === null ? '–' : duration(wait * 1000)],
    ['Busiest minute', busiest === null ? '–' : `${time(busiest)}: ${count(of.busiest_minute_claims ?? 0)} claims`],
  ];
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
