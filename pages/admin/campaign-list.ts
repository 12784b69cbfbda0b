import { COUNTS, DRIFT, type Shown } from './campaign-numbers.js';
import { Chart } from './chart.js';
import { type Attributes, el, tableHead, write } from './elements.js';
import type { CampaignNow, Overview } from './overview.js';
import { stockBar } from './stock-bar.js';
import type { View } from './view.js';
import { count, rate, stateOf } from './words.js';

const PAGE = 25;
const COLUMNS: readonly Shown<CampaignNow>[] = [
  ...COUNTS,
  ['Per second', 'rate', ({ confirmed_per_second }) => rate(confirmed_per_second)],
  DRIFT,
];

type Row = { root: HTMLTableRowElement; show(campaign: CampaignNow, now: string): void };

/** All campaigns, newest first, with their live numbers. */
export function campaignListView(cursor: string | null): View {
  const rows = new Map<string, Row>();
  const body = el('tbody', { role: 'rowgroup' });
  const empty = el(
    'p',
    { class: 'empty', hidden: true },
    'There is no campaign yet. ',
    el('a', { href: '#/new' }, 'Create the first one'),
    '.',
  );
  const table = el(
    'table',
    { class: 'list', role: 'table', hidden: true },
    el('caption', { class: 'unseen' }, 'Campaigns with their stock, newest first'),
    tableHead([
      ['Campaign'],
      ['State'],
      ['Stock'],
      ...COLUMNS.map(([name]): [string, Attributes] => [name, { class: 'number' }]),
    ]),
    body,
  );
  const older = el('a', { class: 'button', hidden: true }, 'Older campaigns');
  const newest = el('a', { class: 'button', href: '#/', hidden: cursor === null }, 'Newest campaigns');
  const charts = [
    new Chart(`rate-${cursor}`, 'Confirmed a second', [{ name: 'now', colour: 'redeemed', text: rate }]),
    new Chart(`waiting-${cursor}`, 'Waiting', [{ name: 'now', colour: 'waiting', text: count }]),
    new Chart('backlog', 'Journal backlog', [{ name: 'entries', colour: 'held', text: count }]),
  ] as const;
  const root = el(
    'div',
    {},
    el(
      'div',
      { class: 'head' },
      el('h1', {}, 'Campaigns'),
      el('a', { class: 'button main', href: '#/new' }, 'New campaign'),
    ),
    el('div', { class: 'charts three' }, ...charts.map((chart) => chart.root)),
    el('div', { class: 'card flush' }, table, empty),
    el('p', { class: 'buttons' }, newest, older),
  );

  return {
    title: 'Campaigns',
    root,
    query: () => `limit=${PAGE}${cursor === null ? '' : `&cursor=${cursor}`}`,
    everyMs: 2_000,
    show(now: Overview) {
      const atMs = Date.parse(now.time);
      const sum = (of: (campaign: CampaignNow) => number) => now.campaigns.reduce((all, one) => all + of(one), 0);
      charts[0].add(atMs, [sum((one) => one.confirmed_per_second)]);
      charts[1].add(atMs, [sum((one) => one.waiting)]);
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
      older.hidden = now.next === null;
      if (now.next !== null) older.href = `#/?cursor=${now.next}`;
    },
    close() {
      for (const chart of charts) chart.close();
    },
  };
}

function campaignRow({ product_id }: CampaignNow): Row {
  const name = el('a', { href: `#/campaigns/${encodeURIComponent(product_id)}` });
  const state = el('span', { class: 'badge' });
  const bar = stockBar();
  const cells = COLUMNS.map(([label, id]) => el('td', { role: 'cell', class: `number ${id}`, 'data-label': label }));
  const root = el(
    'tr',
    { role: 'row' },
    el('th', { scope: 'row', role: 'rowheader' }, name, el('span', { class: 'id' }, product_id)),
    el('td', { role: 'cell', class: 'state' }, state),
    el('td', { role: 'cell', class: 'stock' }, bar.root),
    ...cells,
  );
  return {
    root,
    show(campaign, now) {
      write(name, campaign.name);
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
