import { call, Refused } from './calls.js';
import { confirmed, confirmedWith } from './dialog.js';
import { button, el, say } from './elements.js';
import type { CampaignNow } from './overview.js';
import { restock } from './restock.js';
import { reviewOf } from './review.js';
import { may, roleNote } from './role.js';
import type { Terms } from './term-fields.js';
import { count, time } from './words.js';

type Action = 'open' | 'pause' | 'resume' | 'close' | 'hide' | 'unhide';
const DONE: Record<Action, string> = {
  open: 'The campaign is open.',
  pause: 'The campaign is paused.',
  resume: 'The campaign is resumed.',
  close: 'The campaign is closed.',
  hide: 'The campaign is hidden from the list.',
  unhide: 'The campaign is in the list again.',
};

/** The actions that an operator may take on a campaign in its current state. */
export function campaignActions(
  path: string,
  product: string,
  changed: () => void,
): { root: HTMLElement; show(campaign: CampaignNow): void } {
  let now: CampaignNow | null = null;
  const trouble = el('p', { class: 'error', role: 'alert' });

  const attempt = async (work: () => Promise<void>) => {
    trouble.textContent = '';
    try {
      await work();
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      trouble.textContent = error.message;
    }
    changed();
  };
  const act = (action: Action) =>
    attempt(async () => {
      await call('POST', `${path}/${action}`);
      say(DONE[action]);
    });
  const open = async () => {
    const text = now
      ? `Otherwise it starts by itself at ${time(now.starts_at)}. Once it is open it cannot be scheduled again.`
      : '';
    if (await confirmed('Open the campaign now?', text, 'Open now')) await act('open');
  };
  const publish = () =>
    attempt(async () => {
      const terms = await call<Terms>('GET', path);
      if (!(await confirmedWith('Publish this campaign?', reviewOf(terms, now?.codes ?? 0), 'Publish'))) return;
      await call('PATCH', path, { draft: false });
      say('The campaign is published.');
    });
  const close = async () => {
    if (now && (await confirmed('Close the campaign for good?', closingText(now), 'Close for good')))
      await act('close');
  };

  const buttons = {
    publish: button('Publish', publish, { class: 'main' }),
    open: button('Open now', open, { class: 'main' }),
    resume: button('Resume', () => act('resume'), { class: 'main' }),
    pause: button('Pause', () => act('pause')),
    restock: button('Restock', () => (now ? restock(path, now, changed) : undefined)),
    edit: el('a', { class: 'button', href: `#/edit/${encodeURIComponent(product)}` }, 'Edit'),
    copy: el('a', { class: 'button', href: `#/new?copy=${encodeURIComponent(product)}` }, 'Duplicate'),
    hide: button('Hide from the list', () => act('hide')),
    unhide: button('Show in the list', () => act('unhide')),
    close: button('Close', close, { class: 'danger' }),
  };
  const shown: Record<CampaignNow['status'], (keyof typeof buttons)[]> = {
    draft: ['publish', 'open', 'edit', 'copy', 'restock', 'hide', 'close'],
    scheduled: ['open', 'pause', 'edit', 'copy', 'restock', 'close'],
    open: ['pause', 'edit', 'copy', 'restock', 'close'],
    paused: ['resume', 'edit', 'copy', 'restock', 'close'],
    closed: ['copy', 'hide'],
  };
  if (!may('marketer')) return { root: roleNote('Changing this campaign', 'marketer'), show: () => {} };
  return {
    root: el('div', { class: 'actions' }, ...Object.values(buttons), trouble),
    show(campaign) {
      now = campaign;
      const names = shown[campaign.status].map((name) => (name === 'hide' && campaign.hidden ? 'unhide' : name));
      for (const [name, one] of Object.entries(buttons))
        one.hidden = !names.includes(name as keyof typeof buttons) || (name === 'restock' && campaign.total === null);
      buttons.copy.textContent = campaign.status === 'closed' ? 'Sell again' : 'Duplicate';
    },
  };
}

function closingText({ waiting, held }: CampaignNow): string {
  const users = waiting === 1 ? 'waiting user gets' : 'waiting users get';
  const line = waiting > 0 ? ` ${count(waiting)} ${users} the message that the line is closed.` : '';
  const unpaid = held > 0 ? ` ${count(held)} held units can still be paid until their deadline.` : '';
  return `It cannot be opened again, and sells no more units.${line}${unpaid}`;
}
