import { call } from './calls.js';
import { el } from './elements.js';
import { Form, field } from './fields.js';

export type Session = { operator: string; expires_at: string };

/**
 * Asks for an admin key. The key is sent to the service once and not stored. The browser keeps a session cookie that
 * scripts cannot read.
 */
export function loginView(why: string, entered: (session: Session) => void): HTMLElement {
  const key = field({
    pointer: '#/key',
    label: 'Admin key',
    hint: 'The secret after the name in ADMIN_API_KEYS. It is not stored in this browser.',
    attributes: { type: 'password', autocomplete: 'current-password', required: true },
  });
  const form = new Form([key], [key.root], 'Log in', async () => {
    const session = await call<Session>('POST', '/admin/session', { key: key.input.value });
    key.input.value = '';
    entered(session);
  });
  const root = el(
    'section',
    { class: 'card login', 'aria-labelledby': 'login-title' },
    el('h1', { id: 'login-title' }, 'Operators'),
    el('p', { class: 'hint', role: 'status' }, why),
    form.root,
  );
  return root;
}
