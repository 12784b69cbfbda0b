import { act } from './act.js';
import { answer, call, Refused } from './calls.js';
import { button, card, el, tableHead } from './elements.js';
import { Form, field, textOf } from './fields.js';
import { moneyText } from './history-words.js';
import { OUTCOMES, type PaymentEvent, paymentSearchOf, paymentWords } from './payment-words.js';
import { statusOf } from './redemption-words.js';
import type { View } from './view.js';
import { time } from './words.js';

const SHOWN = '50';
/** The filters in the address. */
const FILTERS = ['product_id', 'user_id', 'order_id', 'reservation_id', 'payment_ref', 'provider', 'outcome'] as const;
const SHOW = { '': 'Those that need an action', all: 'All', ...OUTCOMES };
const PROVIDERS = { '': 'Any', stripe: 'Stripe', events: 'Signed webhook', midtrans: 'Midtrans' };

/** What payment providers have reported. The address has the filter, so it can be shared. */
export function paymentsView(given: URLSearchParams): View {
  const body = el('tbody', { role: 'rowgroup' });
  const table = el(
    'table',
    { class: 'list found payments', role: 'table', hidden: true },
    el('caption', { class: 'unseen' }, 'What payment providers have reported, latest first'),
    tableHead([['Payment'], ['What happened'], ['User'], ['Campaign'], ['Order'], ['When']]),
    body,
  );
  const empty = el('p', { class: 'empty', hidden: true });
  const trouble = el('p', { class: 'error', role: 'alert' });
  let next: string | null = null;
  const more = button('Earlier ones', () => load(next), { hidden: true });

  async function load(cursor: string | null): Promise<void> {
    const query = queryOf(given);
    if (cursor !== null) query.set('cursor', cursor);
    trouble.textContent = '';
    try {
      const { data, next_cursor } = await answer<{ data: PaymentEvent[]; next_cursor: string | null }>(
        `/admin/payment-events?${query}`,
      );
      const rows = data.map((event) => rowOf(event, () => load(null)));
      if (cursor === null) body.replaceChildren(...rows);
      else body.append(...rows);
      next = next_cursor;
      more.hidden = next === null;
      table.hidden = body.children.length === 0;
      empty.hidden = !table.hidden;
      empty.textContent = emptyText(given, next !== null);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      trouble.textContent = error.errors.map(({ detail }) => detail).join(' ') || error.message;
    }
  }

  load(null);
  return {
    title: 'Payments',
    root: el(
      'div',
      {},
      el(
        'div',
        { class: 'head' },
        el('h1', { tabindex: -1 }, 'Payments'),
        button('Refresh', () => load(null)),
      ),
      card('Filter', {}, filterForm(given).root, trouble),
      el('div', { class: 'card flush' }, table, empty, el('p', { class: 'buttons inset' }, more)),
    ),
    query: () => null,
    show: () => {},
  };
}

/** The query of the API. Without an outcome, and without a search, only what needs an action. */
function queryOf(given: URLSearchParams): URLSearchParams {
  const query = new URLSearchParams({ limit: SHOWN });
  for (const name of FILTERS) {
    const value = given.get(name);
    if (value) query.set(name, value);
  }
  if (query.get('outcome') === 'all') query.delete('outcome');
  else if (!query.has('outcome')) query.set('needs_action', 'true');
  return query;
}

function filterForm(given: URLSearchParams): Form {
  const named = ['payment_ref', 'order_id', 'reservation_id'].map((name) => given.get(name)).find((text) => text);
  const what = field({
    pointer: '#/payment_ref',
    label: 'Payment, order or reservation',
    hint: 'Optional.',
    attributes: { type: 'search', value: named ?? '' },
  });
  const user = field({ pointer: '#/user_id', label: 'User', attributes: { value: given.get('user_id') ?? '' } });
  const campaign = field({
    pointer: '#/product_id',
    label: 'Campaign',
    hint: 'Its product id.',
    attributes: { value: given.get('product_id') ?? '' },
  });
  const show = field({ pointer: '#/outcome', label: 'Show', options: SHOW });
  const provider = field({ pointer: '#/provider', label: 'Provider', options: PROVIDERS });
  show.input.value = given.get('outcome') ?? '';
  provider.input.value = given.get('provider') ?? '';
  const fields = [what, user, campaign, show, provider];
  return new Form(fields, [el('div', { class: 'grid' }, ...fields.map(({ root }) => root))], 'Show', async () => {
    const wanted = new URLSearchParams();
    const search = paymentSearchOf(textOf(what));
    if (search) wanted.set(...search);
    for (const [name, input] of Object.entries({ user_id: user, product_id: campaign, outcome: show, provider }))
      if (textOf(input)) wanted.set(name, textOf(input));
    location.hash = wanted.size === 0 ? '#/payments' : `#/payments?${wanted}`;
  });
}

function emptyText(given: URLSearchParams, isMore: boolean): string {
  if (isMore) return 'Nothing was found among the latest payments. Earlier ones can be searched further.';
  if (!given.has('outcome')) return 'No payment needs an action.';
  return 'No provider has reported such a payment. Payments that the shop itself confirms are on the page of their user.';
}

function rowOf(event: PaymentEvent, changed: () => Promise<void>): HTMLElement {
  const { payment_ref, provider, amount, currency, status } = event;
  const { user_id, product_id, campaign_name, order_id, reservation_id } = event;
  const cell = (label: string, ...content: (Node | string)[]) =>
    el('td', { role: 'cell', 'data-label': label }, ...content);
  const { text, tone } = paymentWords(event);
  const from = amount === null || currency === null ? provider : `${provider} · ${moneyText(amount, currency)}`;
  const state = status === null ? '' : `Reservation: ${statusOf({ status: status as never }).word.toLowerCase()}`;
  return el(
    'tr',
    { role: 'row' },
    el('th', { scope: 'row', role: 'rowheader' }, payment_ref ?? '–', el('span', { class: 'id' }, from)),
    cell(
      'What happened',
      el('span', { class: 'badge', 'data-tone': tone }, text),
      el('span', { class: 'id' }, state),
      ...(tone === 'warn' ? [settleButton(event, changed)] : []),
    ),
    cell('User', user_id === null ? '–' : el('a', { href: `#/people/${encodeURIComponent(user_id)}` }, user_id)),
    cell(
      'Campaign',
      product_id === null
        ? '–'
        : el('a', { href: `#/campaigns/${encodeURIComponent(product_id)}` }, campaign_name ?? product_id),
    ),
    cell(
      'Order',
      reservation_id === null
        ? (order_id ?? '–')
        : el('a', { href: `#/find?q=${reservation_id}&in=reservation_id` }, order_id ?? reservation_id),
    ),
    cell('When', el('time', { datetime: event.received_at }, time(event.received_at))),
  );
}

function settleButton({ provider, event_id }: PaymentEvent, changed: () => Promise<void>): HTMLElement {
  return button('Settle', () =>
    act(
      'Does this payment need no further action?',
      'It leaves the list of those that need one. Nothing is paid, returned or released by this. It cannot be undone.',
      'Settle',
      (reason) => call('POST', '/admin/payment-events/settle', { ...reason, provider, event_id }),
      changed,
    ),
  );
}
