import { answer, Refused } from './calls.js';
import { card, el, tableHead } from './elements.js';
import { Form, field, textOf } from './fields.js';
import { type Place, placeText, type Redemption, searchesOf, statusOf } from './redemption-words.js';
import type { View } from './view.js';
import { count, time } from './words.js';

type Result = { data: Redemption[]; places: Place[]; complete: boolean; next_cursor: string | null };

const FIELDS = {
  '': 'Anything',
  user_id: 'User',
  order_id: 'Order',
  payment_ref: 'Payment',
  reservation_id: 'Reservation',
  code: 'Code',
};
const STATUSES = {
  '': 'Any status',
  reserved: 'To be paid',
  redeemed: 'Paid',
  released: 'Released',
  expired: 'Expired',
  refunded: 'Refunded',
  voided: 'Voided',
};
const SHOWN = 100;

/** The search for users, orders, payments, reservations and codes. The address has the search, so it can be shared. */
export function findView(query: URLSearchParams): View {
  const what = field({
    pointer: '#/q',
    label: 'User, order, payment, reservation or code',
    attributes: { type: 'search', value: query.get('q') ?? '' },
  });
  const inside = field({ pointer: '#/in', label: 'Search in', options: FIELDS });
  const campaign = field({
    pointer: '#/product_id',
    label: 'Campaign',
    hint: 'Optional; product id. Alone, it lists its redemptions.',
    attributes: { value: query.get('product_id') ?? '' },
  });
  const status = field({ pointer: '#/status', label: 'Status', options: STATUSES });
  inside.input.value = query.get('in') ?? '';
  status.input.value = query.get('status') ?? '';
  const results = el('div', { class: 'results', 'aria-live': 'polite' });
  const form = new Form(
    [what, inside, campaign, status],
    [el('div', { class: 'grid' }, what.root, inside.root, campaign.root, status.root)],
    'Search',
    async () => {
      const next = new URLSearchParams();
      for (const [name, input] of Object.entries({ q: what, in: inside, product_id: campaign, status }))
        if (textOf(input)) next.set(name, textOf(input));
      const hash = `#/find?${next}`;
      history.replaceState(null, '', hash);
      await search(next, results);
    },
  );
  if ((query.get('q') ?? query.get('product_id')) !== null)
    search(query, results).catch((error) => refused(error, form));
  return {
    title: 'Find',
    root: el(
      'div',
      {},
      el('div', { class: 'head' }, el('h1', { tabindex: -1 }, 'Find')),
      el('section', { class: 'card', 'aria-label': 'Search' }, form.root),
      results,
    ),
    query: () => null,
    show: () => {},
  };
}

function refused(error: unknown, form: Form): void {
  if (!(error instanceof Refused)) throw error;
  form.show(error.errors, error.message);
}

/** Sends a search for each field that the text may be, and shows what any of them found. */
async function search(query: URLSearchParams, results: HTMLElement): Promise<void> {
  const more: Record<string, string> = {};
  for (const name of ['product_id', 'status']) {
    const value = query.get(name);
    if (value) more[name] = value;
  }
  const searches = searchesOf(query.get('q') ?? '', query.get('in') ?? '');
  if (searches.length === 0 && query.get('product_id')) searches.push({});
  if (searches.length === 0)
    throw new Refused(400, 'invalid_request', '', [{ pointer: '#/q', detail: 'Type what to look for' }]);
  results.replaceChildren(el('p', { class: 'hint' }, 'Searching…'));
  const found = await Promise.all(
    searches.map((one) => answer<Result>(`/admin/redemptions?${new URLSearchParams({ ...one, ...more })}`)),
  ).catch((error) => {
    results.replaceChildren();
    throw error;
  });
  const rows = [...new Map(found.flatMap(({ data }) => data).map((row) => [row.redemption_id, row])).values()];
  const user = searches.find((one) => one.user_id !== undefined)?.user_id ?? null;
  const places = found.flatMap((result) => result.places);
  results.replaceChildren(...resultsOf(rows, places, user, found));
}

function resultsOf(
  rows: readonly Redemption[],
  places: readonly Place[],
  user: string | null,
  found: readonly Result[],
): Node[] {
  const notices = found.every(({ complete }) => complete)
    ? []
    : [
        el(
          'p',
          { class: 'notice', role: 'status' },
          'Promises of the last seconds may be missing: Redis is not available, or there are too many to look at.',
        ),
      ];
  if (rows.length === 0 && places.length === 0)
    return [
      ...notices,
      el('p', { class: 'card empty' }, 'Nothing was found. Check the spelling, or search in all campaigns.'),
    ];
  const isMore = found.some(({ next_cursor }) => next_cursor !== null) || rows.length > SHOWN;
  return [
    ...notices,
    ...(user !== null && places.length > 0
      ? [card('In line', {}, el('ul', {}, ...places.map((place) => placeItem(place, user))))]
      : []),
    ...(rows.length > 0 ? [el('div', { class: 'card flush' }, tableOf(rows.slice(0, SHOWN)))] : []),
    ...(isMore
      ? [el('p', { class: 'hint' }, 'There are more. Narrow the search, or use the CSV of the campaign.')]
      : []),
  ];
}

const placeItem = (place: Place, user: string): HTMLElement =>
  el(
    'li',
    {},
    el('a', { href: `#/people/${encodeURIComponent(user)}` }, user),
    ` · ${place.campaign_name} · ${placeText(place)}`,
  );

function tableOf(rows: readonly Redemption[]): HTMLElement {
  const cell = (label: string, ...content: (Node | string)[]) =>
    el('td', { role: 'cell', 'data-label': label }, ...content);
  return el(
    'table',
    { class: 'list found', role: 'table' },
    el('caption', { class: 'unseen' }, 'Redemptions, newest first'),
    tableHead([['User'], ['Campaign'], ['Status'], ['Order'], ['Payment'], ['Units', { class: 'number' }], ['When']]),
    el(
      'tbody',
      { role: 'rowgroup' },
      ...rows.map((row) =>
        el(
          'tr',
          { role: 'row' },
          el(
            'th',
            { scope: 'row', role: 'rowheader' },
            el('a', { href: `#/people/${encodeURIComponent(row.user_id)}` }, row.user_id),
          ),
          cell('Campaign', el('a', { href: `#/campaigns/${encodeURIComponent(row.product_id)}` }, row.campaign_name)),
          cell('Status', badge(row)),
          cell('Order', row.order_id),
          cell('Payment', row.payment_ref ?? '–'),
          el('td', { role: 'cell', 'data-label': 'Units', class: 'number' }, count(row.qty)),
          cell('When', time(row.reserved_at)),
        ),
      ),
    ),
  );
}

/** The status of a redemption, and whether Postgres does not have it yet. */
export function badge(row: Redemption): HTMLElement {
  const { word, tone } = statusOf(row);
  return el(
    'span',
    {},
    el('span', { class: 'badge', 'data-tone': tone }, word),
    row.written ? null : el('span', { class: 'hint' }, ' not yet written'),
  );
}
