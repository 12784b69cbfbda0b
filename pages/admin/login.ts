import type { Role } from '../../shared/domain/role.js';
import { call, Refused } from './calls.js';
import { el } from './elements.js';
import { Form, field } from './fields.js';
import { rememberedInTab } from './remembered.js';

export type Session = { operator: string; role: Role; max_buckets: number; expires_at: string };

/** Why a login at the issuer failed, by the query with which the service sends the browser back. */
const FAILED: Record<string, string> = {
  'no-role': 'You are known, but none of your groups has a role here. Ask an admin for access.',
  refused: 'The login was cancelled or refused. Try again.',
  expired: 'The login took too long, or was begun in another browser. Try again.',
  unavailable: 'The login service does not respond. Try again, or use a key.',
};
const RETURN_TO = 'doorbuster|return to';

/**
 * Asks for an admin key, or leads to the issuer of operators. A key is sent to the service once and not stored. The
 * browser keeps a session cookie that scripts cannot read.
 */
export function loginView(why: string, entered: (session: Session) => void): HTMLElement {
  const key = field({
    pointer: '#/key',
    label: 'Admin key',
    hint: 'The secret after the name in ADMIN_API_KEYS, or of a key with a role. It is not stored in this browser.',
    attributes: { type: 'password', autocomplete: 'current-password', required: true },
  });
  const form = new Form([key], [key.root], 'Log in', async () => {
    const session = await call<Session>('POST', '/admin/session', { key: key.input.value });
    key.input.value = '';
    entered(session);
  });
  const failed = FAILED[new URLSearchParams(location.search).get('login') ?? ''] ?? '';
  const issuer = el('div', { class: 'issuer', hidden: true });
  offerIssuer(issuer);
  return el(
    'section',
    { class: 'card login', 'aria-labelledby': 'login-title' },
    el('h1', { id: 'login-title' }, 'Operators'),
    el('p', { class: 'hint', role: 'status' }, why),
    el('p', { class: 'error', role: 'alert' }, failed),
    issuer,
    form.root,
  );
}

/** Shows the link to the issuer, if operators can log in there. The key works in any case. */
async function offerIssuer(place: HTMLElement): Promise<void> {
  try {
    const { oidc } = await call<{ oidc: boolean }>('GET', '/admin/login/methods');
    if (!oidc) return;
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    return;
  }
  const link = el('a', { class: 'button main', href: '/admin/login' }, 'Log in with single sign-on');
  link.addEventListener('click', () => rememberedInTab.setItem(RETURN_TO, location.hash));
  place.replaceChildren(el('p', { class: 'buttons' }, link), el('p', { class: 'hint' }, 'Or with a key:'));
  place.hidden = false;
}

/** Returns to the view from which the operator went to the issuer. */
export function returnToView(): void {
  const hash = rememberedInTab.getItem(RETURN_TO);
  rememberedInTab.removeItem(RETURN_TO);
  const isReturn = location.hash === '' && hash !== null && hash.startsWith('#/');
  if (isReturn || location.search.startsWith('?login='))
    history.replaceState(null, '', `/admin${isReturn ? hash : location.hash}`);
}
