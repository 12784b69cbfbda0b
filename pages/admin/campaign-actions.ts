import { call, Refused } from './calls.js';
import { ask, confirmed } from './dialog.js';
import { button, el, say } from './elements.js';
import { Form, field, numberOf } from './fields.js';
import type { CampaignNow } from './overview.js';
import { count, time } from './words.js';

type Action = 'open' | 'pause' | 'resume' | 'close';
const DONE: Record<Action, string> = {
  open: 'The campaign is open.',
  pause: 'The campaign is paused.',
  resume: 'The campaign is resumed.',
  close: 'The campaign is closed.',
};

/** The actions that an operator may take on a campaign in its current state. */
export function campaignActions(
  path: string,
  changed: () => void,
): { root: HTMLElement; show(campaign: CampaignNow): void } {
  let now: CampaignNow | null = null;
  const trouble = el('p', { class: 'error', role: 'alert' });

  const act = async (action: Action) => {
    trouble.textContent = '';
    try {
      await call('POST', `${path}/${action}`);
      say(DONE[action]);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      trouble.textContent = error.message;
    }
    changed();
  };
  const open = async () => {
    const text = now
      ? `Otherwise it starts by itself at ${time(now.starts_at)}. Once it is open it cannot be scheduled again.`
      : '';
    if (await confirmed('Open the campaign now?', text, 'Open now')) await act('open');
  };
  const publish = async () => {
    trouble.textContent = '';
    try {
      await call('PATCH', path, { draft: false });
      say('The campaign is published.');
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      trouble.textContent = error.message;
    }
    changed();
  };
  const close = async () => {
    const users = now?.waiting === 1 ? 'waiting user gets' : 'waiting users get';
    const waiting =
      now && now.waiting > 0 ? ` ${count(now.waiting)} ${users} the message that the line is closed.` : '';
    const held = now && now.held > 0 ? ` ${count(now.held)} held units can still be paid until their deadline.` : '';
    const text = `It cannot be opened again, and sells no more units.${waiting}${held}`;
    if (await confirmed('Close the campaign for good?', text, 'Close for good')) await act('close');
  };

  const buttons = {
    publish: button('Publish', publish, { class: 'main' }),
    open: button('Open now', open, { class: 'main' }),
    resume: button('Resume', () => act('resume'), { class: 'main' }),
    pause: button('Pause', () => act('pause')),
    restock: button('Restock', () => (now ? restock(path, now, changed) : undefined)),
    close: button('Close', close, { class: 'danger' }),
  };
  const shown: Record<CampaignNow['status'], (keyof typeof buttons)[]> = {
    draft: ['publish', 'open', 'restock', 'close'],
    scheduled: ['open', 'pause', 'restock', 'close'],
    open: ['pause', 'restock', 'close'],
    paused: ['resume', 'restock', 'close'],
    closed: [],
  };
  return {
    root: el('div', { class: 'actions' }, ...Object.values(buttons), trouble),
    show(campaign) {
      now = campaign;
      for (const [name, one] of Object.entries(buttons)) {
        const isShown = shown[campaign.status].includes(name as keyof typeof buttons);
        one.hidden = !isShown || (name === 'restock' && campaign.total === null);
      }
    },
  };
}

/** Sends the form with one idempotency key, so that sending it again has no further effect. */
function restock(path: string, { total, free }: CampaignNow, changed: () => void): void {
  const key = `restock-${[...crypto.getRandomValues(new Uint8Array(12))].map((byte) => byte.toString(16)).join('-')}`;
  ask('Restock', (close) => {
    const delta = field({
      pointer: '#/delta',
      label: 'Units to add',
      hint: `Now ${count(total)}, of which ${count(free)} free. A negative number removes free units. Added units go to the line first.`,
      attributes: { inputmode: 'numeric', required: true },
    });
    return new Form([delta], [delta.root], 'Change the stock', async () => {
      const wanted = numberOf(delta);
      await call('POST', `${path}/stock`, { delta: wanted ?? null }, { headers: { 'Idempotency-Key': key } });
      say(`The stock was changed by ${wanted}.`);
      changed();
      close();
    });
  });
}
