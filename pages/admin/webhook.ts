import { call, page, Refused } from './calls.js';
import { confirmed } from './dialog.js';
import { button, card, el, say, tableHead } from './elements.js';
import type { View } from './view.js';
import { type Attempt, type Endpoint, resultText, shortType, stateOfEndpoint, troublesOf } from './webhook-words.js';
import { count, time } from './words.js';

/** One webhook endpoint: its state, the last attempts, and what an operator can do about it. */
export function webhookView(id: string): View {
  const path = `/admin/webhooks/${encodeURIComponent(id)}`;
  const heading = el('h1', { tabindex: -1 }, 'Webhook');
  const state = el('span', { class: 'badge' });
  const trouble = el('p', { class: 'error', role: 'alert' });
  const result = el('p', { role: 'status' });
  const notices = el('div', { class: 'warnings', role: 'status' });
  const facts = el('dl', { class: 'facts' });
  const attempts = attemptsCard(path, (event) => resend(event));
  let endpoint: Endpoint | null = null;

  const attempt = async (work: () => Promise<void>) => {
    trouble.textContent = '';
    try {
      await work();
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      trouble.textContent = error.message;
    }
  };
  const read = () =>
    attempt(async () => {
      show(await call<Endpoint>('GET', path));
      await attempts.load();
    });
  const setEnabled = (enabled: boolean) =>
    attempt(async () => {
      show(await call<Endpoint>('PATCH', path, { enabled }));
      say(enabled ? 'The endpoint is enabled. Waiting events are delivered now.' : 'The endpoint is disabled.');
    });
  const disable = async () => {
    const text = 'Its events are kept for seven days, and are delivered when it is enabled again.';
    if (await confirmed('Disable this endpoint?', text, 'Disable')) await setEnabled(false);
  };
  const sendTest = () =>
    attempt(async () => {
      result.textContent = 'Sending…';
      result.textContent = await call<Attempt>('POST', `${path}/test`)
        .then(resultText)
        .catch((error: unknown) => {
          result.textContent = '';
          throw error;
        });
    });
  const resend = (event: string) =>
    attempt(async () => {
      await call('POST', `${path}/replay`, { event_id: event });
      say('The event will be delivered again.');
      await read();
    });
  const remove = async () => {
    const text = `${endpoint?.url} gets no more events, and those that wait for it are dropped for it. This cannot be undone.`;
    if (!(await confirmed('Remove this endpoint?', text, 'Remove'))) return;
    await attempt(async () => {
      await call('DELETE', path);
      say('The endpoint is removed.');
      location.hash = '#/webhooks';
    });
  };
  const buttons = {
    test: button('Send a test event', sendTest),
    enable: button('Enable', () => setEnabled(true), { class: 'main' }),
    disable: button('Disable', disable),
    remove: button('Remove', remove, { class: 'danger' }),
  };

  function show(now: Endpoint): void {
    endpoint = now;
    heading.textContent = now.url;
    const { word, tone } = stateOfEndpoint(now);
    state.textContent = word;
    state.dataset.tone = tone;
    notices.replaceChildren(...troublesOf(now).map((text) => el('p', { class: 'notice' }, text)));
    buttons.enable.hidden = now.enabled;
    buttons.disable.hidden = !now.enabled;
    facts.replaceChildren(...factsOf(now).flatMap(([name, value]) => [el('dt', {}, name), el('dd', {}, value)]));
  }

  read();
  return {
    title: 'Webhook',
    root: el(
      'div',
      {},
      el('p', { class: 'crumbs' }, el('a', { href: '#/webhooks' }, 'Webhooks')),
      el(
        'div',
        { class: 'head' },
        el('div', { class: 'title' }, heading, state),
        el('div', { class: 'actions' }, ...Object.values(buttons), button('Refresh', read), result, trouble),
      ),
      notices,
      card('Deliveries', {}, facts),
      attempts.root,
    ),
    query: () => null,
    show: () => {},
  };
}

function factsOf({ types, campaigns, deliveries, created_at }: Endpoint): [string, string][] {
  return [
    ['Types of events', types === null ? 'all' : types.map(shortType).join(', ')],
    ['Campaigns', campaigns === null ? 'all' : campaigns.join(', ')],
    ['Waiting events', count(deliveries.backlog)],
    ['Of them parked', count(deliveries.parked)],
    ['Replays under way', count(deliveries.replays)],
    ['Last delivered', deliveries.last_delivered_at === null ? 'never' : time(deliveries.last_delivered_at)],
    ['Created', time(created_at)],
  ];
}

function attemptsCard(
  path: string,
  resend: (event: string) => Promise<void>,
): { root: HTMLElement; load(): Promise<void> } {
  const body = el('tbody', { role: 'rowgroup' });
  const table = el(
    'table',
    { class: 'list bans', role: 'table', hidden: true },
    el('caption', { class: 'unseen' }, 'Attempts, newest first'),
    tableHead([['When'], ['Event'], ['Result'], [el('span', { class: 'unseen' }, 'Send again')]]),
    body,
  );
  const empty = el('p', { class: 'empty', hidden: true }, 'There has been no attempt yet.');
  let next: string | null = null;
  const more = button('Earlier attempts', () => load(next), { hidden: true });

  async function load(from: string | null): Promise<void> {
    const found = await page<Attempt[]>(from ?? `${path}/attempts?limit=20`);
    const rows = found.data.map((one) => attemptRow(one, () => resend(one.event_id)));
    if (from === null) body.replaceChildren(...rows);
    else body.append(...rows);
    next = found.next;
    more.hidden = next === null;
    table.hidden = body.children.length === 0;
    empty.hidden = body.children.length > 0;
  }
  const buttons = el('p', { class: 'buttons inset' }, more);
  return { root: card('Attempts', { class: 'flush' }, table, empty, buttons), load: () => load(null) };
}

function attemptRow(one: Attempt, resend: () => Promise<void>): HTMLElement {
  const cell = (label: string, ...content: (Node | string)[]) =>
    el('td', { role: 'cell', 'data-label': label }, ...content);
  const again = button('Send again', resend, { 'aria-label': `Send again ${one.event_id}` });
  return el(
    'tr',
    { role: 'row' },
    el('th', { scope: 'row', role: 'rowheader' }, el('time', { datetime: one.attempted_at }, time(one.attempted_at))),
    cell('Event', shortType(one.type), el('span', { class: 'id' }, one.subject)),
    cell('Result', el('span', { class: 'badge', 'data-tone': one.delivered ? 'good' : 'bad' }, resultText(one))),
    cell('', ...(one.delivered ? [again] : [])),
  );
}
