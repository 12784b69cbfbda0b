import { ROLES, type Role } from '../../shared/domain/role.js';
import { call, Refused } from './calls.js';
import { confirmed } from './dialog.js';
import { button, card, el, say, tableHead } from './elements.js';
import { Form, field, textOf } from './fields.js';
import { showSecret } from './secret-dialog.js';
import { sessionsCard } from './sessions-card.js';
import type { View } from './view.js';
import { time } from './words.js';

type Key = {
  id: string;
  name: string;
  kind: 'service' | 'admin';
  role: Role | null;
  secret?: string;
  created_at: string;
  created_by: string;
  expires_at: string | null;
  revoked_at: string | null;
  revoked_by: string | null;
  last_used_at: string | null;
};

const MAY: Record<string, string> = {
  service: 'Service: confirm, release and refund payments',
  viewer: 'Viewer: read campaigns and their numbers',
  support: 'Support: also find users, release, refund, ban',
  marketer: 'Marketer: also create and change campaigns and codes',
  admin: 'Admin: everything, keys and webhooks too',
};
const DAY_S = 86_400;
const UNTIL: Record<string, string> = {
  '': 'Until it is revoked',
  [String(30 * DAY_S)]: '30 days',
  [String(90 * DAY_S)]: '90 days',
  [String(365 * DAY_S)]: 'One year',
};

/** The API keys, with a form that creates one. */
export function keysView(): View {
  const body = el('tbody', { role: 'rowgroup' });
  const table = el(
    'table',
    { class: 'list bans', role: 'table', hidden: true },
    el('caption', { class: 'unseen' }, 'API keys, newest first'),
    tableHead([['Name'], ['May'], ['Last used'], ['Ends'], [el('span', { class: 'unseen' }, 'Revoke')]]),
    body,
  );
  const empty = el('p', { class: 'empty', hidden: true }, 'No key has been created yet.');
  const trouble = el('p', { class: 'error', role: 'alert' });
  const all = field({ pointer: '#/all', label: 'Also revoked and expired keys', attributes: { type: 'checkbox' } });
  all.input.addEventListener('change', () => load());

  async function load(): Promise<void> {
    trouble.textContent = '';
    try {
      const wanted = (all.input as HTMLInputElement).checked;
      const keys = await call<Key[]>('GET', `/admin/keys?all=${wanted}`);
      body.replaceChildren(...keys.map((key) => keyRow(key, () => revoke(key))));
      table.hidden = keys.length === 0;
      empty.hidden = keys.length > 0;
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      trouble.textContent = error.message;
    }
  }

  async function revoke({ id, name }: Key): Promise<void> {
    const text = `Calls with it are refused within about two seconds, and its sessions end. This cannot be undone.`;
    if (!(await confirmed(`Revoke ${name}?`, text, 'Revoke'))) return;
    try {
      await call('DELETE', `/admin/keys/${id}`);
      say(`${name} is revoked.`);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      trouble.textContent = error.message;
    }
    await load();
  }

  load();
  return {
    title: 'API keys',
    root: el(
      'div',
      {},
      el('div', { class: 'head' }, el('h1', { tabindex: -1 }, 'API keys')),
      el(
        'div',
        { class: 'columns uneven' },
        card('Keys', { class: 'flush' }, el('div', { class: 'inset' }, all.root, trouble), table, empty),
        card('Create one', {}, creation(load).root),
      ),
      sessionsCard(),
    ),
    query: () => null,
    show: () => {},
  };
}

function creation(created: () => Promise<void>): Form {
  const name = field({
    pointer: '#/name',
    label: 'Name',
    hint: 'Who or what uses it, such as payments-2026. It is never used again, because the audit log has it.',
    attributes: { required: true, maxlength: 64 },
  });
  const may = field({ pointer: '#/role', label: 'What it may do', options: MAY });
  const until = field({ pointer: '#/expires_at', label: 'Valid for', options: UNTIL });
  const fields = [name, may, until];
  return new Form(fields, [el('div', { class: 'grid' }, ...fields.map(({ root }) => root))], 'Create', async () => {
    const chosen = textOf(may);
    const role = ROLES.find((one) => one === chosen) ?? null;
    const forSeconds = Number(textOf(until));
    const key = await call<Key>('POST', '/admin/keys', {
      name: textOf(name),
      kind: role === null ? 'service' : 'admin',
      role,
      expires_at: forSeconds > 0 ? new Date(Date.now() + forSeconds * 1000).toISOString() : null,
    });
    name.input.value = '';
    await showSecret(`The secret of ${key.name}`, String(key.secret));
    await created();
  });
}

function keyRow(key: Key, revoke: () => Promise<void>): HTMLElement {
  const cell = (label: string, ...content: (Node | string)[]) =>
    el('td', { role: 'cell', 'data-label': label }, ...content);
  const { name, role, revoked_at, revoked_by, expires_at } = key;
  const isExpired = expires_at !== null && Date.parse(expires_at) <= Date.now();
  const end = revoked_at
    ? `revoked by ${revoked_by}, ${time(revoked_at)}`
    : expires_at === null
      ? 'when it is revoked'
      : `${isExpired ? 'ended' : 'ends'} ${time(expires_at)}`;
  const isOver = revoked_at !== null || isExpired;
  return el(
    'tr',
    { role: 'row' },
    el(
      'th',
      { scope: 'row', role: 'rowheader' },
      el('span', { class: 'subject' }, name),
      el('span', { class: 'id' }, `by ${key.created_by}, ${time(key.created_at)}`),
    ),
    cell('May', el('span', { class: 'badge', 'data-tone': isOver ? 'off' : 'good' }, role ?? 'service')),
    cell('Last used', key.last_used_at === null ? 'never' : time(key.last_used_at)),
    cell('Ends', end),
    cell('', ...(isOver ? [] : [button('Revoke', revoke, { 'aria-label': `Revoke ${name}` })])),
  );
}
