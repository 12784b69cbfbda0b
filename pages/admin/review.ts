import { el } from './elements.js';
import { moneyText } from './history-words.js';
import { FACTS, type Terms } from './term-fields.js';
import { warningsOf } from './warnings.js';
import { count, timeIn } from './words.js';

/** What a campaign will be: warnings, times in both time zones, terms, and what shoppers see. */
export function reviewOf(terms: Terms, codes: number): HTMLElement {
  const zone = String(terms.time_zone);
  const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const moment = (value: unknown, none: string): [string, string] =>
    value === null ? [none, none] : [timeIn(String(value), zone), timeIn(String(value), own)];
  const rows: [string, [string, string]][] = [
    ['Starts', moment(terms.starts_at, 'now')],
    ['Ends', moment(terms.ends_at, 'no end')],
  ];
  const warnings = warningsOf(terms, codes, new Date());
  const { title, price, currency } = (terms.branding ?? {}) as { title?: string; price?: number; currency?: string };
  const total = terms.total_limit as number | null;
  return el(
    'div',
    { class: 'review' },
    ...warnings.map((text) => el('p', { class: 'notice' }, text)),
    el(
      'table',
      { class: 'plain-table' },
      el('caption', { class: 'unseen' }, 'Start and end in both time zones'),
      el(
        'thead',
        {},
        el(
          'tr',
          {},
          el('td', {}),
          el('th', { scope: 'col' }, `Campaign (${zone})`),
          el('th', { scope: 'col' }, `You (${own})`),
        ),
      ),
      el(
        'tbody',
        {},
        ...rows.map(([name, times]) =>
          el('tr', {}, el('th', { scope: 'row' }, name), ...times.map((text) => el('td', {}, text))),
        ),
      ),
    ),
    el('h3', {}, 'What shoppers see'),
    el(
      'div',
      { class: 'shopper' },
      el('strong', {}, title ?? String(terms.name)),
      price !== undefined && currency ? el('span', {}, moneyText(price, currency)) : null,
      el('span', {}, total === null ? 'As many as you like' : `${count(total)} ${total === 1 ? 'unit' : 'units'}`),
      el('span', { class: 'hint' }, `Opens ${timeIn(String(terms.starts_at), zone)}`),
    ),
    el('h3', {}, 'Terms'),
    el('dl', { class: 'facts' }, ...FACTS.flatMap(([name, of]) => [el('dt', {}, name), el('dd', {}, of(terms))])),
  );
}
