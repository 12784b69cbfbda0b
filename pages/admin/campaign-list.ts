import { COUNTS, DRIFT, type Shown } from './campaign-numbers.js';
import { Chart } from './chart.js';
import { type Attributes, el, tableHead, write } from './elements.js';
import { Form, field, textOf } from './fields.js';
import type { CampaignNow, Overview, Totals } from './overview.js';
import { onlyFor } from './role.js';
import { stockBar } from './stock-bar.js';
import type { View } from './view.js';
import { count, rate, stateOf, time } from './words.js';

const PAGE = 25;
const COLUMNS: readonly Shown<CampaignNow>[] = [
  ...COUNTS,
  ['Per second', 'rate', ({ confirmed_per_second }) => rate(confirmed_per_second)],
  DRIFT,
];
const TOTALS: readonly Shown<Totals>[] = [
  ['Open', 'open', ({ campaigns }) => count(campaigns.open)],
  ['Scheduled', 'scheduled', ({ campaigns }) => count(campaigns.scheduled)],
  ['Paid', 'redeemed', ({ redeemed }) => count(redeemed)],
  ['To be paid', 'held', ({ held }) => count(held)],
  ['Waiting', 'waiting', ({ waiting, complete }) => `${count(waiting)}${complete ? '' : ' or more'}`],
];
/** The filters of the list: names in the address and in the API. */
const FILTERS = ['q', 'status', 'sort', 'hidden'] as const;
const STATUSES = {
  '': 'Any state',
  open: 'Open',
  paused: 'Paused',
  scheduled: 'Scheduled',
  draft: 'Drafts',
  closed: 'Closed',
};
const SORTS = { live: 'Live first', newest: 'Newest first', starts_at: 'By start', name: 'By name' };

type Row = { root: HTMLTableRowElement; show(campaign: CampaignNow, now: string): void };

/** Campaigns with their live numbers, searched and sorted by the service, and sums over all of them. */
export function campaignListView(given: URLSearchParams): View {
  const query = new URLSearchParams({ sort: 'live', limit: String(PAGE) });
  for (const name of [...FILTERS, 'cursor']) {
    const value = given.get(name);
    if (value) query.set(name, value);
  }
  const isFiltered = given.has('q') || given.has('status') || given.has('hidden');
  const rows = new Map<string, Row>();
  const body = el('tbody', { role: 'rowgroup' });
  const { empty, table } = listOf(body, isFiltered);
  const next = el('a', { class: 'button', hidden: true }, 'Next page');
  const first = el('a', { class: 'button', href: addressOf(query, null), hidden: !given.has('cursor') }, 'First page');
  const sums = TOTALS.map(([, id]) => el('dd', { class: id }, '–'));
  const charts = [
    new Chart('rate', 'Confirmed a second', [{ name: 'now', colour: 'redeemed', text: rate }]),
    new Chart('waiting', 'Waiting', [{ name: 'now', colour: 'waiting', text: count }]),
    new Chart('backlog', 'Journal backlog', [{ name: 'entries', colour: 'held', text: count }]),
  ] as const;
  const root = el(
    'div',
    {},
    el(
      'div',
      { class: 'head' },
      el('h1', { tabindex: -1 }, 'Campaigns'),
      onlyFor('marketer', el('a', { class: 'button main', href: '#/new' }, 'New campaign')),
    ),
    el(
      'section',
      { class: 'card', 'aria-label': 'All campaigns together' },
      el(
        'dl',
        { class: 'tiles sums' },
        ...TOTALS.map(([label], i) => el('div', {}, el('dt', {}, label), sums[i] as HTMLElement)),
      ),
    ),
    el('div', { class: 'charts three' }, ...charts.map((chart) => chart.root)),
    el('section', { class: 'card', 'aria-label': 'Search and filter' }, filterForm(query).root),
    el('div', { class: 'card flush' }, table, empty),
    el('p', { class: 'buttons' }, first, next),
  );

  return {
    title: 'Campaigns',
    root,
    query: () => query.toString(),
    everyMs: 2_000,
    show(now: Overview) {
      const atMs = Date.parse(now.time);
      if (now.totals) {
        charts[0].add(atMs, [now.totals.confirmed_per_second]);
        charts[1].add(atMs, [now.totals.waiting]);
        for (const [i, [, , textOfSum]] of TOTALS.entries()) write(sums[i] as HTMLElement, textOfSum(now.totals));
      }
      charts[2].add(atMs, [now.journal_backlog]);
      const listed = now.campaigns.map((campaign) => {
        const row = rows.get(campaign.id) ?? campaignRow(campaign);
        rows.set(campaign.id, row);
        row.show(campaign, now.time);
        return row.root;
      });
      // Replaces the rows only when the list itself has changed, so that the focus is kept.
      if (listed.length !== body.children.length || listed.some((row, i) => body.children[i] !== row))
        body.replaceChildren(...listed);
      table.hidden = listed.length === 0;
      empty.hidden = listed.length > 0;
      next.hidden = now.next === null;
      if (now.next !== null) next.href = addressOf(query, now.next);
    },
    close() {
      for (const chart of charts) chart.close();
    },
  };
}

/** The address of a page of the list. @param cursor null = the first page */
function addressOf(query: URLSearchParams, cursor: number | null): string {
  const shown = new URLSearchParams();
  for (const name of FILTERS) {
    const value = query.get(name);
    if (value && !(name === 'sort' && value === 'live')) shown.set(name, value);
  }
  if (cursor !== null) shown.set('cursor', String(cursor));
  return shown.size === 0 ? '#/' : `#/?${shown}`;
}

function filterForm(query: URLSearchParams): Form {
  const text = field({
    pointer: '#/q',
    label: 'Search campaigns',
    hint: 'Part of a name or product id, or a code.',
    attributes: { type: 'search', value: query.get('q') ?? '' },
  });
  const status = field({ pointer: '#/status', label: 'State', options: STATUSES });
  const sort = field({ pointer: '#/sort', label: 'Order', options: SORTS });
  const hidden = field({
    pointer: '#/hidden',
    label: 'Hidden ones',
    attributes: { type: 'checkbox', checked: query.get('hidden') === 'true' },
  });
  status.input.value = query.get('status') ?? '';
  sort.input.value = query.get('sort') ?? 'live';
  const fields = [text, status, sort, hidden];
  return new Form(fields, [el('div', { class: 'grid' }, ...fields.map(({ root }) => root))], 'Apply', async () => {
    const wanted = new URLSearchParams({ sort: textOf(sort) });
    if (textOf(text)) wanted.set('q', textOf(text));
    if (textOf(status)) wanted.set('status', textOf(status));
    if ((hidden.input as HTMLInputElement).checked) wanted.set('hidden', 'true');
    location.hash = addressOf(wanted, null);
  });
}

function listOf(body: HTMLElement, isFiltered: boolean): { table: HTMLElement; empty: HTMLElement } {
  const empty = isFiltered
    ? el(
        'p',
        { class: 'empty', hidden: true },
        'No campaign matches. ',
        el('a', { href: '#/' }, 'Show all campaigns'),
        '.',
      )
    : el(
        'p',
        { class: 'empty', hidden: true },
        'There is no campaign yet. ',
        onlyFor('marketer', el('a', { href: '#/new' }, 'Create the first one.')),
      );
  const table = el(
    'table',
    { class: 'list', role: 'table', hidden: true },
    el('caption', { class: 'unseen' }, 'Campaigns with their stock'),
    tableHead([
      ['Campaign'],
      ['State'],
      ['Stock'],
      ...COLUMNS.map(([name]): [string, Attributes] => [name, { class: 'number' }]),
    ]),
    body,
  );
  return { table, empty };
}

function campaignRow({ product_id }: CampaignNow): Row {
  const name = el('a', { href: `#/campaigns/${encodeURIComponent(product_id)}` });
  const state = el('span', { class: 'badge' });
  const bar = stockBar();
  const cells = COLUMNS.map(([label, id]) => el('td', { role: 'cell', class: `number ${id}`, 'data-label': label }));
  const times = el('span', { class: 'id' });
  const root = el(
    'tr',
    { role: 'row' },
    el('th', { scope: 'row', role: 'rowheader' }, name, el('span', { class: 'id' }, product_id), times),
    el('td', { role: 'cell', class: 'state' }, state),
    el('td', { role: 'cell', class: 'stock' }, bar.root),
    ...cells,
  );
  return {
    root,
    show(campaign, now) {
      write(name, campaign.name);
      const end = campaign.ends_at === null ? '' : ` to ${time(campaign.ends_at)}`;
      write(times, `${time(campaign.starts_at)}${end}`);
      const { word, tone } = stateOf(campaign, now);
      write(state, word);
      state.dataset.tone = tone;
      bar.show(campaign);
      for (const [i, [, id, textOf]] of COLUMNS.entries()) {
        const cell = cells[i] as HTMLElement;
        write(cell, textOf(campaign));
        cell.classList.toggle('nothing', cell.textContent === '0' || cell.textContent === '0.0');
        if (id === 'drift') cell.classList.toggle('bad', campaign.drift !== 0);
      }
    },
  };
}
