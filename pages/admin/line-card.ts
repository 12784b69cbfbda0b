import { card, el, write } from './elements.js';
import type { Overview } from './overview.js';
import { may } from './role.js';
import { count, duration, reasonText, time } from './words.js';

const NO_USERS = 'The users in line need the role support.';

/** The first users in line, and why no user is promoted. */
export function lineCard(): { root: HTMLElement; show(now: Overview): void } {
  const reason = el('p', { class: 'reason' });
  const body = el('tbody');
  const table = el(
    'table',
    { class: 'plain-table', hidden: true },
    el('caption', { class: 'unseen' }, 'The first in line'),
    el(
      'thead',
      {},
      el(
        'tr',
        {},
        el('th', { scope: 'col', class: 'number' }, 'Place'),
        el('th', { scope: 'col' }, 'User'),
        el('th', { scope: 'col', class: 'number' }, 'Units'),
        el('th', { scope: 'col', class: 'number' }, 'Since'),
      ),
    ),
    body,
  );
  const more = el('p', { class: 'hint' });
  let shown = '';
  return {
    root: card('The line', {}, reason, table, more),
    show({ line, time: now }) {
      table.hidden = !line || line.head.length === 0;
      if (!line) {
        write(reason, 'This campaign is no longer in Redis, so it has no line.');
        write(more, '');
        return;
      }
      write(reason, reasonText(line));
      reason.dataset.reason = line.reason;
      const rest = line.waiting - line.head.length;
      write(more, !may('support') ? NO_USERS : rest > 0 ? `and ${count(rest)} more behind them` : '');
      const key = JSON.stringify(line.head);
      if (key !== shown) {
        shown = key;
        body.replaceChildren(
          ...line.head.map(({ position, user_id, qty, since }) =>
            el(
              'tr',
              {},
              el('td', { class: 'number' }, position === null ? 'away' : count(position)),
              el('th', { scope: 'row', class: 'user' }, user_id),
              el('td', { class: 'number' }, count(qty)),
              el('td', { class: 'number', title: time(since), 'data-since': since }),
            ),
          ),
        );
      }
      for (const cell of body.querySelectorAll<HTMLElement>('[data-since]'))
        write(cell, duration(Date.parse(now) - Date.parse(String(cell.dataset.since))));
    },
  };
}
