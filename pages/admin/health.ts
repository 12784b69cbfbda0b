import { call, Refused } from './calls.js';
import { Chart } from './chart.js';
import { button, card, el, say, write } from './elements.js';
import type { Overview, QueueNow } from './overview.js';
import { onlyFor } from './role.js';
import type { View } from './view.js';
import { count, seconds, worryOf } from './words.js';

/** The purpose of each queue, in the order in which a promise passes through them. */
const QUEUES: Record<string, string> = {
  persist: 'writes the journal to Postgres',
  expire: 'expires reservations that were not paid in time, and maintains the lines',
  promote: 'promotes waiting users to free units',
  deliver: 'delivers events to webhooks',
  codes: 'generates and imports codes',
  reconcile: 'compares a campaign in Redis with Postgres',
  sweeps: 'runs schedules, comparisons and clean-ups at intervals',
};
const COUNTS = ['waiting', 'active', 'delayed', 'failed'] as const satisfies (keyof QueueNow)[];

/** Shows how far Postgres is behind, and the work of the workers. */
export function healthView(): View {
  const verdict = el('p', { class: 'reason' });
  const facts = { workers: el('dd', { class: 'name' }), backlog: el('dd'), oldest: el('dd') };
  const charts = [
    new Chart('backlog', 'Journal backlog', [{ name: 'entries', colour: 'held', text: count }]),
    new Chart('oldest', 'Oldest unpersisted', [{ name: 'age', colour: 'waiting', text: seconds }]),
  ] as const;
  const cells = new Map<string, HTMLElement[]>();
  const troubles = new Map<string, { why: HTMLElement; retry: HTMLElement | null }>();
  const rows = Object.entries(QUEUES).map(([name, purpose]) => {
    const own = COUNTS.map(() => el('td', { class: 'number' }));
    cells.set(name, own);
    const why = el('span', { class: 'id' });
    const retry = onlyFor(
      'admin',
      button('Retry now', () => retryQueue(name), { hidden: '' }),
    );
    troubles.set(name, { why, retry });
    const head = el('th', { scope: 'row' }, name, el('span', { class: 'id' }, purpose), why, retry);
    return el('tr', {}, head, ...own);
  });
  const root = el(
    'div',
    {},
    el(
      'div',
      { class: 'head' },
      el('h1', { tabindex: -1 }, 'Health'),
      onlyFor('admin', el('a', { class: 'button', href: '/admin/queues' }, 'Jobs in detail')),
    ),
    card(
      'The journal',
      {},
      verdict,
      el(
        'dl',
        { class: 'tiles three' },
        el('div', {}, el('dt', {}, 'Workers'), facts.workers),
        el('div', {}, el('dt', {}, 'Backlog'), facts.backlog),
        el('div', {}, el('dt', {}, 'Oldest unpersisted'), facts.oldest),
      ),
    ),
    el('div', { class: 'charts two' }, ...charts.map((chart) => chart.root)),
    card(
      'Queues',
      {},
      el(
        'table',
        { class: 'plain-table' },
        el('caption', { class: 'unseen' }, 'Jobs in each queue'),
        el(
          'thead',
          {},
          el(
            'tr',
            {},
            el('th', { scope: 'col' }, 'Queue'),
            ...['Waiting', 'Active', 'Delayed', 'Failed'].map((head) =>
              el('th', { scope: 'col', class: 'number' }, head),
            ),
          ),
        ),
        el('tbody', {}, ...rows),
      ),
    ),
  );
  return {
    title: 'Health',
    root,
    query: () => 'limit=1',
    everyMs: 1_000,
    show(now: Overview) {
      const worry = worryOf(now);
      write(verdict, worry || 'Everything is in order: promises are persisted to Postgres within moments.');
      verdict.classList.toggle('bad', worry !== '');
      write(facts.workers, now.workers.join(', ') || 'none');
      write(facts.backlog, count(now.journal_backlog));
      write(facts.oldest, seconds(now.oldest_unpersisted_seconds));
      const atMs = Date.parse(now.time);
      charts[0].add(atMs, [now.journal_backlog]);
      charts[1].add(atMs, [now.oldest_unpersisted_seconds]);
      for (const [name, queue] of Object.entries(now.queues)) {
        showQueue(cells.get(name) ?? [], queue);
        const { why, retry } = troubles.get(name) ?? {};
        if (why) write(why, waitingText(queue));
        if (retry) retry.hidden = queue.reason === null;
      }
    },
    close() {
      for (const chart of charts) chart.close();
    },
  };
}

async function retryQueue(name: string): Promise<void> {
  try {
    const { jobs } = await call<{ jobs: number }>('POST', `/admin/jobs/${name}/retry`);
    say(jobs === 0 ? 'No job waited for a retry.' : 'The delayed jobs run now.');
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    say(error.message);
  }
}

function showQueue(cells: readonly HTMLElement[], queue: QueueNow): void {
  for (const [i, kind] of COUNTS.entries()) {
    const cell = cells[i];
    if (!cell) continue;
    write(cell, count(queue[kind]));
    cell.classList.toggle('nothing', queue[kind] === 0);
    cell.classList.toggle('bad', kind === 'failed' && queue[kind] > 0);
  }
}

/** How long the oldest job of a queue waits, and why its last attempt failed. */
function waitingText({ oldest_seconds, reason }: QueueNow): string {
  if (oldest_seconds === null) return '';
  const waits = `The oldest job waits for ${seconds(oldest_seconds)}`;
  return reason === null ? `${waits}.` : `${waits}: ${reason}`;
}
