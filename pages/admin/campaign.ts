import { campaignActions } from './campaign-actions.js';
import { COUNTS, DRIFT } from './campaign-numbers.js';
import { Chart } from './chart.js';
import { codesCard } from './codes-card.js';
import { card, el, write } from './elements.js';
import { historyCard } from './history-card.js';
import { lineCard } from './line-card.js';
import type { CampaignNow, Overview } from './overview.js';
import { paymentsCard, reportedPaymentsCard } from './payments-card.js';
import { recordsCard } from './records-card.js';
import { regionsCard } from './regions-card.js';
import { stockBar } from './stock-bar.js';
import { FACTS, type Terms } from './term-fields.js';
import { versionsCard } from './versions-card.js';
import type { View } from './view.js';
import { warningsOf } from './warnings.js';
import { count, pauseOf, rate, seconds, stateOf } from './words.js';

const LINE_SHOWN = 10;
type Number = readonly [string, string, (one: CampaignNow, now: Overview) => string];
/** What a marketer reads, and what an engineer reads. */
const SALE: readonly Number[] = COUNTS;
const SYSTEM: readonly Number[] = [
  ['Confirmed a second', 'rate', ({ confirmed_per_second }) => rate(confirmed_per_second)],
  ['Journal backlog', 'backlog', (_, { journal_backlog }) => count(journal_backlog)],
  ['Oldest unpersisted', 'oldest', (_, now) => seconds(now.oldest_unpersisted_seconds)],
  DRIFT,
];
const NUMBERS = [...SALE, ...SYSTEM];

/** One campaign: its numbers, its actions, the line, its codes and its records. */
export function campaignView(product: string, changed: () => void): View {
  const path = `/admin/campaigns/${encodeURIComponent(product)}`;
  const name = el('h1', { tabindex: -1 }, product);
  const state = el('span', { class: 'badge' });
  const pause = el('p', { class: 'notice pause', role: 'status' });
  const actions = campaignActions(path, product, changed);
  const warnings = el('div', { class: 'warnings', role: 'status' });
  const versions = versionsCard(path);
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
  const history = historyCard(path);
  const line = lineCard();
  const codes = codesCard(path);
  const regions = regionsCard(path);
  const payments = paymentsCard(path);
  const terms = card('Terms', { class: 'terms' });
  let shownTerms = '';
  let shownWarnings = '';

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
    warnings,
    el(
      'section',
      { class: 'card numbers', 'aria-label': 'Numbers' },
      bar.root,
      tilesOf(SALE, values, 'Sale'),
      tilesOf(SYSTEM, values.slice(SALE.length), 'System'),
    ),
    el('div', { class: 'charts two' }, ...charts.map((chart) => chart.root)),
    history.root,
    el(
      'div',
      { class: 'columns' },
      el('div', {}, line.root, regions.root, codes.root),
      el('div', {}, payments.root, reportedPaymentsCard(product), terms, versions.root, recordsCard(path)),
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
      regions.show(now.terms?.regions);
      if (now.terms) {
        const texts = warningsOf(
          { ...now.terms, status: one.status, total_limit: one.total },
          one.codes,
          new Date(now.time),
          one.redeemed,
        );
        if (texts.join('|') !== shownWarnings) {
          shownWarnings = texts.join('|');
          warnings.replaceChildren(...texts.map((text) => el('p', { class: 'notice' }, text)));
        }
      }
      const key = JSON.stringify(now.terms);
      if (now.terms && key !== shownTerms) {
        const isChange = shownTerms !== '';
        shownTerms = key;
        if (isChange) versions.changed();
        terms.replaceChildren(terms.firstElementChild as Element, termsOf(now.terms, product));
      }
    },
    close() {
      for (const chart of charts) chart.close();
      codes.close();
      regions.close();
      history.close();
      payments.close();
    },
  };
}

function tilesOf(numbers: readonly Number[], values: readonly HTMLElement[], title: string): HTMLElement {
  const tiles = numbers.map(([label], i) => el('div', {}, el('dt', {}, label), values[i] as HTMLElement));
  return el('div', {}, el('h2', { class: 'group' }, title), el('dl', { class: 'tiles' }, ...tiles));
}

/** Shows the terms of a campaign. */
function termsOf(terms: Terms, product: string): HTMLElement {
  const sale = `/sale/${encodeURIComponent(product)}`;
  return el(
    'div',
    {},
    el('dl', { class: 'facts' }, ...FACTS.flatMap(([name, of]) => [el('dt', {}, name), el('dd', {}, of(terms))])),
    el('p', { class: 'buttons' }, el('a', { class: 'button', href: sale }, 'The shopper’s page')),
  );
}
