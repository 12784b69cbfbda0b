import { call, Refused } from './calls.js';
import { confirmed } from './dialog.js';
import { button, card, el, say, tableHead } from './elements.js';
import { time } from './words.js';

type NamedSession = {
  id: string;
  operator: string;
  role: string;
  created_at: string;
  last_seen_at: string;
  expires_at: string;
};

/** The sessions of operators who logged in at the issuer. Hidden if the service has no issuer. */
export function sessionsCard(): HTMLElement {
  const body = el('tbody', { role: 'rowgroup' });
  const table = el(
    'table',
    { class: 'list bans', role: 'table' },
    el('caption', { class: 'unseen' }, 'Sessions of operators, latest first'),
    tableHead([['Operator'], ['Role'], ['Last seen'], ['Ends'], [el('span', { class: 'unseen' }, 'End')]]),
    body,
  );
  const trouble = el('p', { class: 'error inset', role: 'alert' });
  const empty = el('p', { class: 'empty' }, 'No operator is logged in with single sign-on.');
  const root = card('Sessions', { class: 'flush', hidden: true }, trouble, table, empty);

  async function load(): Promise<void> {
    try {
      const sessions = await call<NamedSession[]>('GET', '/admin/sessions');
      body.replaceChildren(...sessions.map((session) => sessionRow(session, () => end(session))));
      table.hidden = sessions.length === 0;
      empty.hidden = sessions.length > 0;
      root.hidden = false;
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      // Without an issuer the service has no such call.
      root.hidden = error.status === 404;
      trouble.textContent = error.message;
    }
  }

  async function end({ id, operator }: NamedSession): Promise<void> {
    const text = 'The operator is logged out, and can log in again while the issuer allows it.';
    if (!(await confirmed(`End the session of ${operator}?`, text, 'End session'))) return;
    try {
      await call('DELETE', `/admin/sessions/${id}`);
      say('The session has ended.');
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      trouble.textContent = error.message;
    }
    await load();
  }

  load();
  return root;
}

function sessionRow(session: NamedSession, end: () => Promise<void>): HTMLElement {
  const cell = (label: string, ...content: (Node | string)[]) =>
    el('td', { role: 'cell', 'data-label': label }, ...content);
  const { operator, role, created_at, last_seen_at, expires_at } = session;
  return el(
    'tr',
    { role: 'row' },
    el(
      'th',
      { scope: 'row', role: 'rowheader' },
      el('span', { class: 'subject' }, operator),
      el('span', { class: 'id' }, `since ${time(created_at)}`),
    ),
    cell('Role', role),
    cell('Last seen', time(last_seen_at)),
    cell('Ends', time(expires_at)),
    cell('', button('End', end, { 'aria-label': `End the session of ${operator}` })),
  );
}
