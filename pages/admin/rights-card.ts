import { call, Refused } from './calls.js';
import { ask } from './dialog.js';
import { button, card, el, say } from './elements.js';
import { Form, field, textOf } from './fields.js';
import { may } from './role.js';

type Erased = { status: 'running' | 'done'; rows: Record<string, number> };

/** A call works for at most ten seconds. */
const CALL_LIMIT_MS = 30_000;
const REPEAT_AFTER_MS = 1_000;

/** Export and erasure of a user. @param changed is called after the erasure */
export function rightsCard(user: string, changed: () => Promise<void>): HTMLElement {
  const path = `/admin/users/${encodeURIComponent(user)}`;
  return card(
    'Personal data',
    {},
    el(
      'p',
      { class: 'hint' },
      'The export has everything that is stored about this user. An erasure replaces the user id by a random pseudonym.',
    ),
    el(
      'p',
      { class: 'buttons' },
      el('a', { class: 'button', href: `${path}/export`, download: true }, 'Export as JSON'),
      may('admin') ? button('Erase', () => askToErase(user, path, changed), { class: 'danger' }) : null,
    ),
  );
}

function askToErase(user: string, path: string, changed: () => Promise<void>): void {
  ask('Erase this user?', (close) => {
    const again = field({
      pointer: '#/user_id',
      label: 'The user id, to confirm',
      hint: `Type ${user}`,
      attributes: { required: true },
    });
    const progress = el('p', { class: 'hint', role: 'status' });
    const consequence = el(
      'p',
      {},
      'The id is replaced in every campaign, and devices, networks and reasons are removed. Sold units and counts stay. Bans of this ' +
        'user are lifted. It is not possible to find out afterwards what belonged to this user. This cannot be undone.',
    );
    return new Form([again], [consequence, again.root, progress], 'Erase', async () => {
      if (textOf(again) !== user)
        throw new Refused(400, 'invalid_request', '', [{ pointer: '#/user_id', detail: `Type ${user} to confirm` }]);
      for (;;) {
        const { status, rows } = await call<Erased>(
          'POST',
          `${path}/erase`,
          { user_id: user },
          { limitMs: CALL_LIMIT_MS },
        );
        if (status === 'done') break;
        const changedRows = Object.values(rows).reduce((sum, some) => sum + some, 0);
        progress.textContent = `${changedRows} entries are done. Keep this page open.`;
        await new Promise((resolve) => setTimeout(resolve, REPEAT_AFTER_MS));
      }
      close();
      say('The user was erased.');
      await changed();
    });
  });
}
