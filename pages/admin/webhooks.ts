import { call, Refused } from './calls.js';
import { button, card, el, tableHead } from './elements.js';
import { Form, field, textOf } from './fields.js';
import { showSecret } from './secret-dialog.js';
import type { View } from './view.js';
import { type Endpoint, shortType, stateOfEndpoint } from './webhook-words.js';
import { count, time } from './words.js';

/** The webhook endpoints with the state of their deliveries, and a form that creates one. */
export function webhooksView(): View {
  const body = el('tbody', { role: 'rowgroup' });
  const table = el(
    'table',
    { class: 'list bans', role: 'table', hidden: true },
    el('caption', { class: 'unseen' }, 'Webhook endpoints, oldest first'),
    tableHead([['URL'], ['State'], ['Events'], ['Waiting'], ['Last delivered']]),
    body,
  );
  const empty = el('p', { class: 'empty', hidden: true }, 'There is no endpoint yet. Events are kept for seven days.');
  const trouble = el('p', { class: 'error', role: 'alert' });

  async function load(): Promise<void> {
    trouble.textContent = '';
    try {
      const endpoints = await call<Endpoint[]>('GET', '/admin/webhooks');
      body.replaceChildren(...endpoints.map(endpointRow));
      table.hidden = endpoints.length === 0;
      empty.hidden = endpoints.length > 0;
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      trouble.textContent = error.message;
    }
  }

  load();
  return {
    title: 'Webhooks',
    root: el(
      'div',
      {},
      el('div', { class: 'head' }, el('h1', { tabindex: -1 }, 'Webhooks'), button('Refresh', load)),
      el(
        'div',
        { class: 'columns uneven' },
        card('Endpoints', { class: 'flush' }, el('div', { class: 'inset' }, trouble), table, empty),
        card('Create one', {}, creation(load).root),
      ),
    ),
    query: () => null,
    show: () => {},
  };
}

function creation(created: () => Promise<void>): Form {
  const url = field({
    pointer: '#/url',
    label: 'URL',
    hint: 'It receives every event from now on by POST, signed by Standard Webhooks.',
    attributes: { type: 'url', required: true, placeholder: 'https://shop.example/hooks/doorbuster' },
  });
  const types = field({
    pointer: '#/types',
    label: 'Types of events',
    hint: 'Comma-separated; empty = all. docs/events.md has the list.',
  });
  const campaigns = field({
    pointer: '#/campaigns',
    label: 'Campaigns',
    hint: 'Product ids, comma-separated; empty = all.',
  });
  const fields = [url, types, campaigns];
  return new Form(fields, [el('div', { class: 'grid' }, ...fields.map(({ root }) => root))], 'Create', async () => {
    const endpoint = await call<Endpoint>('POST', '/admin/webhooks', {
      url: textOf(url),
      types: listIn(textOf(types)),
      campaigns: listIn(textOf(campaigns)),
    });
    for (const { input } of fields) input.value = '';
    await showSecret('The signing secret of the endpoint', String(endpoint.secrets?.[0]));
    await created();
  });
}

function listIn(text: string): string[] | null {
  const parts = text.split(',').map((part) => part.trim());
  return text === '' ? null : parts.filter(Boolean);
}

function endpointRow(endpoint: Endpoint): HTMLElement {
  const cell = (label: string, ...content: (Node | string)[]) =>
    el('td', { role: 'cell', 'data-label': label }, ...content);
  const { word, tone } = stateOfEndpoint(endpoint);
  const { deliveries, types, campaigns } = endpoint;
  const filter = campaigns === null ? '' : `of ${count(campaigns.length)} campaigns`;
  return el(
    'tr',
    { role: 'row' },
    el(
      'th',
      { scope: 'row', role: 'rowheader' },
      el('a', { href: `#/webhooks/${endpoint.id}` }, endpoint.url),
      el('span', { class: 'id' }, `since ${time(endpoint.created_at)}`),
    ),
    cell('State', el('span', { class: 'badge', 'data-tone': tone }, word)),
    cell('Events', types === null ? 'all' : types.map(shortType).join(', '), el('span', { class: 'id' }, filter)),
    cell('Waiting', count(deliveries.backlog)),
    cell('Last delivered', deliveries.last_delivered_at === null ? 'never' : time(deliveries.last_delivered_at)),
  );
}
