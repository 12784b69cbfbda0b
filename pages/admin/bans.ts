import { call, page, Refused } from './calls.js';
import { confirmed } from './dialog.js';
import { button, card, el, say, tableHead } from './elements.js';
import { Form, field, textOf } from './fields.js';
import type { View } from './view.js';
import { time } from './words.js';

type Ban = {
  id: string;
  effect: 'ban' | 'allow';
  kind: 'user' | 'device' | 'network';
  subject: string;
  until: string | null;
  reason: string;
  actor: string;
  created_at: string;
  lifted_at: string | null;
};

const KINDS = { user: 'User', device: 'Device', network: 'Address or range' };
const UNTIL: Record<string, string> = {
  3600: 'One hour',
  86400: 'One day',
  604800: 'One week',
  '': 'Until it is lifted',
};

/** The bans and allowances, with forms to add and lift them. */
export function bansView(): View {
  const body = el('tbody', { role: 'rowgroup' });
  const table = el(
    'table',
    { class: 'list bans', role: 'table', hidden: true },
    el('caption', { class: 'unseen' }, 'Bans and allowances in force, newest first'),
    tableHead([['Who'], ['Effect'], ['Until'], ['Why'], ['By'], [el('span', { class: 'unseen' }, 'Lift')]]),
    body,
  );
  const empty = el('p', { class: 'empty', hidden: true }, 'There are no bans and no allowances.');
  const trouble = el('p', { class: 'error', role: 'alert' });
  let next: string | null = null;
  const more = button('Older ones', () => load(next), { hidden: true });

  const subject = field({
    pointer: '#/subject',
    label: 'Who',
    hint: 'A user id, a device fingerprint, or an IP address or range.',
    attributes: { required: true },
  });
  const kind = field({ pointer: '#/kind', label: 'Kind', options: KINDS });
  const effect = field({
    pointer: '#/effect',
    label: 'Effect',
    options: { ban: 'Ban', allow: 'Allow, also against the rules' },
  });
  const until = field({ pointer: '#/until', label: 'For', options: UNTIL });
  const reason = field({
    pointer: '#/reason',
    label: 'Why',
    hint: 'Stands in the audit log.',
    attributes: { required: true },
  });
  const all = [kind, subject, effect, until, reason];
  const form = new Form(all, [el('div', { class: 'grid' }, ...all.map(({ root }) => root))], 'Add', async () => {
    const forSeconds = Number(textOf(until));
    await call('POST', '/admin/bans', {
      kind: textOf(kind),
      subject: textOf(subject),
      effect: textOf(effect),
      reason: textOf(reason),
      until: forSeconds > 0 ? new Date(Date.now() + forSeconds * 1000).toISOString() : null,
    });
    say('It is in force.');
    subject.input.value = reason.input.value = '';
    await load(null);
  });

  const search = field({
    pointer: '#/subject',
    label: 'Whole id or address',
    attributes: { type: 'search' },
  });
  const searchKind = field({ pointer: '#/kind', label: 'Kind', options: { '': 'All', ...KINDS } });
  const finder = new Form(
    [searchKind, search],
    [el('div', { class: 'grid' }, searchKind.root, search.root)],
    'Show',
    () => load(null),
  );

  async function load(from: string | null): Promise<void> {
    trouble.textContent = '';
    try {
      const found = await page<Ban[]>(from ?? `/admin/bans?${filter()}`);
      const rows = found.data.map((ban) => banRow(ban, () => lift(ban)));
      if (from === null) body.replaceChildren(...rows);
      else body.append(...rows);
      next = found.next;
      more.hidden = next === null;
      table.hidden = body.children.length === 0;
      empty.hidden = body.children.length > 0;
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      trouble.textContent = error.message;
    }
  }

  function filter(): URLSearchParams {
    const query = new URLSearchParams({ limit: '50' });
    if (textOf(search)) query.set('subject', textOf(search));
    if (textOf(searchKind)) query.set('kind', textOf(searchKind));
    return query;
  }

  async function lift(ban: Ban): Promise<void> {
    if (!(await confirmed('Lift it?', `${KINDS[ban.kind]} ${ban.subject}: ${ban.reason}`, 'Lift'))) return;
    try {
      await call('DELETE', `/admin/bans/${ban.id}`);
      say('It was lifted.');
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      trouble.textContent = error.message;
    }
    await load(null);
  }

  load(null);
  return {
    title: 'Bans',
    root: el(
      'div',
      {},
      el('div', { class: 'head' }, el('h1', { tabindex: -1 }, 'Bans and allowances')),
      el(
        'div',
        { class: 'columns uneven' },
        card(
          'In force',
          { class: 'flush' },
          el('div', { class: 'inset' }, finder.root, trouble),
          table,
          empty,
          el('p', { class: 'buttons inset' }, more),
        ),
        card('Add one', {}, form.root),
      ),
    ),
    query: () => null,
    show: () => {},
  };
}

function banRow(
  { kind, subject, effect, until, reason, actor, created_at }: Ban,
  lift: () => Promise<void>,
): HTMLElement {
  const badge = el(
    'span',
    { class: 'badge', 'data-tone': effect === 'ban' ? 'bad' : 'good' },
    effect === 'ban' ? 'Banned' : 'Allowed',
  );
  const cell = (label: string, ...content: (Node | string)[]) =>
    el('td', { role: 'cell', 'data-label': label }, ...content);
  return el(
    'tr',
    { role: 'row' },
    el(
      'th',
      { scope: 'row', role: 'rowheader' },
      el('span', { class: 'subject' }, subject),
      el('span', { class: 'id' }, KINDS[kind]),
    ),
    cell('Effect', badge),
    cell('Until', until === null ? 'it is lifted' : time(until)),
    cell('Why', reason),
    cell('By', actor, el('span', { class: 'id' }, time(created_at))),
    cell('', button('Lift', lift, { 'aria-label': `Lift ${subject}` })),
  );
}
