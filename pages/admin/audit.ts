import { answer, Refused } from './calls.js';
import { button, card, el, tableHead } from './elements.js';
import { Form, field, textOf } from './fields.js';
import type { View } from './view.js';
import { time } from './words.js';

type Entry = {
  id: string;
  at: string;
  actor: string;
  role: string | null;
  subject: string | null;
  action: string;
  campaign: { id: string; product_id: string } | null;
  before: Record<string, unknown> | null;
  after: Record<string, unknown> | null;
  request_id: string | null;
};

const ABOUT: Record<string, string> = {
  '': 'Everything',
  'campaign.': 'Campaigns',
  'reservation.': 'Reservations',
  'line.': 'Lines',
  'ban.': 'Bans',
  'webhook.': 'Webhooks',
  'key.': 'API keys',
  'operator.': 'Logins',
  'session.': 'Sessions',
  'codes.': 'Codes',
  'redemptions.': 'Exports of buyers',
  'user.': 'Personal data',
};
const FILTERS = ['actor', 'action', 'product_id', 'reservation_id'] as const;

/** Who changed what, and when. The address has the filter. */
export function auditView(given: URLSearchParams): View {
  const body = el('tbody', { role: 'rowgroup' });
  const table = el(
    'table',
    { class: 'list bans', role: 'table', hidden: true },
    el('caption', { class: 'unseen' }, 'The audit log, latest first'),
    tableHead([['When'], ['Who'], ['What'], ['About'], ['Details']]),
    body,
  );
  const empty = el('p', { class: 'empty', hidden: true }, 'No entry matches.');
  const trouble = el('p', { class: 'error', role: 'alert' });
  let next: string | null = null;
  const more = button('Earlier entries', () => load(next), { hidden: true });

  const who = field({ pointer: '#/actor', label: 'Who', hint: 'The whole name of an operator or a key.' });
  const about = field({ pointer: '#/action', label: 'About', options: ABOUT });
  const campaign = field({ pointer: '#/product_id', label: 'Campaign', hint: 'Its product id.' });
  const reservation = field({
    pointer: '#/reservation_id',
    label: 'Reservation',
    hint: 'Shows everything that was done to it.',
  });
  const fields = [who, about, campaign, reservation];
  for (const [i, name] of FILTERS.entries()) (fields[i] as (typeof fields)[0]).input.value = given.get(name) ?? '';
  const form = new Form(fields, [el('div', { class: 'grid' }, ...fields.map(({ root }) => root))], 'Show', async () => {
    const wanted = new URLSearchParams();
    for (const [i, name] of FILTERS.entries()) {
      const text = textOf(fields[i] as (typeof fields)[0]);
      if (text) wanted.set(name, text);
    }
    location.hash = wanted.size === 0 ? '#/audit' : `#/audit?${wanted}`;
  });

  async function load(cursor: string | null): Promise<void> {
    const query = new URLSearchParams({ limit: '50' });
    for (const name of FILTERS) if (given.get(name)) query.set(name, String(given.get(name)));
    if (cursor !== null) query.set('cursor', cursor);
    trouble.textContent = '';
    try {
      const { data, next_cursor } = await answer<{ data: Entry[]; next_cursor: string | null }>(
        `/admin/audit?${query}`,
      );
      const rows = data.map(entryRow);
      if (cursor === null) body.replaceChildren(...rows);
      else body.append(...rows);
      next = next_cursor;
      more.hidden = next === null;
      table.hidden = body.children.length === 0;
      empty.hidden = body.children.length > 0;
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      trouble.textContent = error.message;
    }
  }

  load(null);
  return {
    title: 'Audit log',
    root: el(
      'div',
      {},
      el(
        'div',
        { class: 'head' },
        el('h1', { tabindex: -1 }, 'Audit log'),
        button('Refresh', () => load(null)),
      ),
      card('Filter', {}, form.root, trouble),
      el('div', { class: 'card flush' }, table, empty, el('p', { class: 'buttons inset' }, more)),
    ),
    query: () => null,
    show: () => {},
  };
}

function entryRow({ at, actor, role, action, subject, campaign, before, after, request_id }: Entry): HTMLElement {
  const cell = (label: string, ...content: (Node | string)[]) =>
    el('td', { role: 'cell', 'data-label': label }, ...content);
  const about = campaign
    ? el('a', { href: `#/campaigns/${encodeURIComponent(campaign.product_id)}` }, campaign.product_id)
    : '–';
  const texts: [string, unknown][] = [
    ['Before', before],
    ['After', after],
    ['Request', request_id],
    ['Subject at the issuer', subject],
  ];
  const details = el(
    'details',
    {},
    el('summary', {}, 'Show'),
    ...texts.flatMap(([name, value]) =>
      value === null ? [] : [el('p', { class: 'hint' }, name), el('pre', {}, textOfValue(value))],
    ),
  );
  return el(
    'tr',
    { role: 'row' },
    el('th', { scope: 'row', role: 'rowheader' }, el('time', { datetime: at }, time(at))),
    cell('Who', actor, el('span', { class: 'id' }, role ?? '')),
    cell('What', action),
    cell('About', about),
    cell('', details),
  );
}

const textOfValue = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value, null, 2));
