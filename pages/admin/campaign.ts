import { campaignActions } from './campaign-actions.js';
import { COUNTS, DRIFT } from './campaign-numbers.js';
import { Chart } from './chart.js';
import { codesCard } from './codes-card.js';
import { card, el, write } from './elements.js';
import { lineCard } from './line-card.js';
import type { CampaignNow, Overview } from './overview.js';
import { paymentsCard } from './payments-card.js';
import { recordsCard } from './records-card.js';
import { stockBar } from './stock-bar.js';
import { FACTS, type Terms } from './term-fields.js';
import type { View } from './view.js';
import { count, pauseOf, rate, seconds, stateOf } from './words.js';

const LINE_SHOWN = 10;
const NUMBERS: readonly (readonly [string, string, (one: CampaignNow, now: Overview) => string])[] = [
  ...COUNTS,
  ['Confirmed a second', 'rate', ({ confirmed_per_second }) => rate(confirmed_per_second)],
  ['Journal backlog', 'backlog', (_, { journal_backlog }) => count(journal_backlog)],
  ['Oldest unpersisted', 'oldest', (_, now) => seconds(now.oldest_unpersisted_seconds)],
  DRIFT,
];

/** One campaign: its numbers, its actions, the line, its codes and its records. */
export function campaignView(product: string, changed: () => void): View {
  const path = `/admin/campaigns/${encodeURIComponent(product)}`;
  const name = el('h1', { tabindex: -1 }, product);
  const state = el('span', { class: 'badge' });
  const pause = el('p', { class: 'notice pause', role: 'status' });
  const actions = campaignActions(path, changed);
  const bar = stockBar();
  const values = NUMBERS.map(([, id]) => el('dd', { class: id }));
  const charts = [
    new Chart(`stock|${product}`, 'Stock', [
      { name: 'free', colour: 'free', text: count },
      { name: 'held', colour: 'held', text: count },
      { name: 'redeemed', colour: 'redeemed', text: count },
    ]),
    new Chart(`rate|${product}`, 'Confirmed a second', [{ name: 'now', colour: 'redeemed', text: rate }]),
    new Chart(`waiting|${product}`, 'Waiting', [{ name: 'now', colour: 'waiting', text: count }]),
    new Chart('backlog', 'Journal backlog', [{ name: 'entries', colour: 'held', text: count }]),
  ] as const;
  const line = lineCard();
  const codes = codesCard(path);
  const payments = paymentsCard(path);
  const terms = card('Terms', { class: 'terms' });
  let shownTerms = '';

  const root = el(
    'div',
    {},
    el('p', { class: 'crumbs' }, el('a', { href: '#/' }, 'Campaigns')),
    el(
      'div',
      { class: 'head' },
      el('div', { class: 'title' }, name, state, el('span', { class: 'id' }, product)),
      actions.root,
    ),
    pause,
    el(
      'section',
      { class: 'card numbers', 'aria-label': 'Numbers' },
      bar.root,
      el(
        'dl',
        { class: 'tiles' },
        ...NUMBERS.map(([label], i) => el('div', {}, el('dt', {}, label), values[i] as HTMLElement)),
      ),
    ),
    el('div', { class: 'charts two' }, ...charts.map((chart) => chart.root)),
    el(
      'div',
      { class: 'columns' },
      el('div', {}, line.root, codes.root),
      el('div', {}, payments.root, terms, recordsCard(path)),
    ),
  );

  return {
    title: product,
    root,
    query: () => `campaign=${encodeURIComponent(product)}&line=${LINE_SHOWN}`,
    everyMs: 1_000,
    show(now) {
      const [one] = now.campaigns;
      if (!one) return;
      write(name, one.name);
      const { word, tone } = stateOf(one, now.time);
      write(state, word);
      state.dataset.tone = tone;
      write(pause, pauseOf(one) ?? '');
      pause.hidden = pauseOf(one) === null;
      actions.show(one);
      bar.show(one);
      for (const [i, [, id, textOf]] of NUMBERS.entries()) {
        const value = values[i] as HTMLElement;
        write(value, textOf(one, now));
        if (id === 'drift') value.classList.toggle('bad', one.drift !== 0);
      }
      const atMs = Date.parse(now.time);
      charts[0].add(atMs, [one.free ?? 0, one.held, one.redeemed]);
      charts[1].add(atMs, [one.confirmed_per_second]);
      charts[2].add(atMs, [one.waiting]);
      charts[3].add(atMs, [now.journal_backlog]);
      line.show(now);
      codes.root.hidden = one.type === 'shared';
      const key = JSON.stringify(now.terms);
      if (now.terms && key !== shownTerms) {
        shownTerms = key;
        terms.replaceChildren(terms.firstElementChild as Element, termsOf(now.terms, product));
      }
    },
    close() {
      for (const chart of charts) chart.close();
      codes.close();
      payments.close();
    },
  };
}

/** Shows the terms of a campaign. They are changed by PATCH /admin/campaigns/:id. */
function termsOf(terms: Terms, product: string): HTMLElement {
  const sale = `/sale/${encodeURIComponent(product)}`;
  return el(
    'div',
    {},
    el('dl', { class: 'facts' }, ...FACTS.flatMap(([name, of]) => [el('dt', {}, name), el('dd', {}, of(terms))])),
    el('p', { class: 'buttons' }, el('a', { class: 'button', href: sale }, 'The shopper’s page')),
  );
}
