import { call, Refused } from './calls.js';
import { ask } from './dialog.js';
import { button, card, el, say } from './elements.js';
import { Form, field, textOf } from './fields.js';
import { may } from './role.js';

type Erasure = {
  status: 'running' | 'waiting' | 'done';
  waits_for: { product_id: string; state: 'waiting' | 'held' | 'open' }[];
  rows: Record<string, number>;
};

const LOOK_AFTER_MS = 1_000;
/** What has to end, before the product id. */
const ENDS = { waiting: 'the place in the line of', held: 'the reservation of', open: 'the campaign' } as const;

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
    const inOpen = field({
      pointer: '#/in_open_campaigns',
      label: 'Do not wait until the campaigns are closed',
      hint: 'This user could then claim there again.',
      attributes: { type: 'checkbox' },
    });
    const progress = el('p', { class: 'hint', role: 'status' });
    const consequence = el(
      'p',
      {},
      'The id is replaced in every campaign, and devices, networks and reasons are removed. Sold units and counts stay. Bans of this ' +
        'user are lifted. It waits until each campaign of which the user has a unit is closed. It is not possible to find out afterwards what belonged to this user. This cannot be undone.',
    );
    return new Form([again, inOpen], [consequence, again.root, inOpen.root, progress], 'Erase', async () => {
      if (textOf(again) !== user)
        throw new Refused(400, 'invalid_request', '', [{ pointer: '#/user_id', detail: `Type ${user} to confirm` }]);
      const { erasure_id } = await call<{ erasure_id: string }>(
        'DELETE',
        `${path}?in_open_campaigns=${(inOpen.input as HTMLInputElement).checked}`,
      );
      for (;;) {
        const erasure = await call<Erasure>('GET', `/admin/erasures/${erasure_id}`);
        if (erasure.status === 'done') break;
        progress.textContent = progressText(erasure);
        await new Promise((resolve) => setTimeout(resolve, LOOK_AFTER_MS));
        if (!progress.isConnected) return;
      }
      close();
      say('The user was erased.');
      await changed();
    });
  });
}

/** What an erasure has done, or what it waits for. It goes on when the page is left. */
function progressText({ waits_for, rows }: Erasure): string {
  const done = Object.values(rows).reduce((sum, some) => sum + some, 0);
  if (waits_for.length === 0) return `${done} entries are done. You may leave this page.`;
  const things = waits_for.map(({ product_id, state }) => `${ENDS[state]} ${product_id}`);
  return `It waits for the end of ${things.join(', of ')}. You may leave this page.`;
}
