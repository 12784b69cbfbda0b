import { answer, Refused } from './calls.js';
import { button, card, el } from './elements.js';
import { type TermChange, termName, valueText } from './term-fields.js';
import { time } from './words.js';

type Version = { version: number; at: string; by: string; changes: TermChange[] };

/** The versions of a campaign's terms. They are read when the card is opened, and again after a change. */
export function versionsCard(path: string): { root: HTMLElement; changed(): void } {
  const list = el('ol', { class: 'timeline' });
  const trouble = el('p', { class: 'error', role: 'alert' });
  let next: string | null = null;
  const more = button('More versions', () => read(next), { class: 'plain' });
  more.hidden = true;
  const details = el('details', {}, el('summary', {}, 'Show who changed what'), list, trouble, more);

  async function read(cursor: string | null): Promise<void> {
    trouble.textContent = '';
    try {
      const { data, next_cursor } = await answer<{ data: Version[]; next_cursor: string | null }>(
        `${path}/versions?limit=20${cursor === null ? '' : `&cursor=${cursor}`}`,
      );
      const items = data.map(versionItem);
      if (cursor === null) list.replaceChildren(...items);
      else list.append(...items);
      next = next_cursor;
      more.hidden = next === null;
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      trouble.textContent = error.message;
    }
  }
  const readIfOpen = () => {
    if (details.open) return read(null);
    return undefined;
  };
  details.addEventListener('toggle', readIfOpen);
  return { root: card('Versions of the terms', {}, details), changed: readIfOpen };
}

function versionItem({ version, at, by, changes }: Version): HTMLElement {
  return el(
    'li',
    {},
    el('time', { datetime: at }, time(at)),
    el('strong', {}, `Version ${version}, by ${by}`),
    changes.length === 0
      ? el('span', { class: 'hint' }, version === 1 ? 'Created' : 'No term changed')
      : changeTable(changes),
  );
}

/** What a change of terms does: each term before and after it. */
export function changeTable(changes: readonly TermChange[]): HTMLElement {
  return el(
    'table',
    { class: 'plain-table changes' },
    el('caption', { class: 'unseen' }, 'Changed terms'),
    el('thead', {}, el('tr', {}, ...['Term', 'Before', 'After'].map((name) => el('th', { scope: 'col' }, name)))),
    el(
      'tbody',
      {},
      ...changes.map(({ field, before, after }) =>
        el(
          'tr',
          {},
          el('th', { scope: 'row' }, termName(field)),
          el('td', {}, el('del', {}, valueText(field, before))),
          el('td', {}, el('ins', {}, valueText(field, after))),
        ),
      ),
    ),
  );
}
