import { act } from './act.js';
import { call, Refused } from './calls.js';
import { button, card, el } from './elements.js';
import { type Field, field } from './fields.js';
import { badge } from './find.js';
import { type Moment, momentText, type Place, placeText, type Redemption, unitsText } from './redemption-words.js';
import { rightsCard } from './rights-card.js';
import { may } from './role.js';
import type { View } from './view.js';
import { count, time } from './words.js';

type Person = {
  user_id: string;
  redemptions: Redemption[];
  places: Place[];
  timeline: Moment[];
  truncated: boolean;
  complete: boolean;
};

/** One user: what they hold, where they wait, what happened, and actions for them. */
export function personView(user: string): View {
  const content = el('div', {}, el('p', { class: 'hint' }, 'Reading…'));
  const trouble = el('p', { class: 'error', role: 'alert' });
  const read = async () => {
    trouble.textContent = '';
    try {
      const person = await call<Person>('GET', `/admin/users/${encodeURIComponent(user)}/timeline`);
      content.replaceChildren(...contentOf(person, read));
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      trouble.textContent = error.message;
    }
  };
  read();
  return {
    title: user,
    root: el(
      'div',
      {},
      el('p', { class: 'crumbs' }, el('a', { href: '#/find' }, 'Find')),
      el('div', { class: 'head' }, el('h1', { tabindex: -1 }, user), paymentsLink(user), button('Refresh', read)),
      trouble,
      content,
    ),
    query: () => null,
    show: () => {},
  };
}

/** Leads to what payment providers have reported about the user. */
function paymentsLink(user: string): HTMLElement {
  const query = new URLSearchParams({ user_id: user, outcome: 'all' });
  return el('a', { class: 'button', href: `#/payments?${query}` }, 'Payments');
}

function contentOf(
  { user_id, redemptions, places, timeline, truncated, complete }: Person,
  changed: () => Promise<void>,
): Node[] {
  const isEmpty = redemptions.length === 0 && places.length === 0 && timeline.length === 0;
  if (isEmpty) return [el('p', { class: 'card empty' }, 'Nothing is known about this user.')];
  const notices = [
    complete
      ? ''
      : 'Promises of the last seconds may be missing: Redis is not available, or there are too many to look at.',
    truncated ? 'This user has more entries than this page shows.' : '',
  ].filter(Boolean);
  return [
    ...notices.map((text) => el('p', { class: 'notice', role: 'status' }, text)),
    el(
      'div',
      { class: 'columns' },
      el(
        'div',
        {},
        card(
          'Units',
          {},
          redemptions.length === 0 ? el('p', { class: 'hint' }, 'None yet.') : null,
          ...redemptions.map((row) => redemptionItem(row, changed)),
        ),
        card(
          'Places in line',
          {},
          places.length === 0 ? el('p', { class: 'hint' }, 'This user never waited.') : null,
          ...places.map((place) => placeItem(place, user_id, changed)),
        ),
      ),
      el(
        'div',
        {},
        card('Timeline', {}, el('ol', { class: 'timeline' }, ...timeline.map(momentItem))),
        may('admin') ? rightsCard(user_id, changed) : null,
      ),
    ),
  ];
}

function redemptionItem(row: Redemption, changed: () => Promise<void>): HTMLElement {
  const facts: [string, string][] = [
    ['Order', row.order_id],
    ['Reservation', row.redemption_id],
    ['Units', unitsText(row)],
    ['When', time(row.reserved_at)],
    ...(row.pay_before && row.status === 'reserved'
      ? [['To be paid by', time(row.pay_before)] as [string, string]]
      : []),
    ...(row.payment_ref ? [['Payment', row.payment_ref] as [string, string]] : []),
    ...(row.code ? [['Code', row.code] as [string, string]] : []),
    ...(row.reason ? [['Reason', row.reason] as [string, string]] : []),
    ...Object.entries(row.metadata ?? {}),
  ];
  const path = `/admin/reservations/${row.redemption_id}`;
  const several = row.qty > 1;
  const unit = several ? 'The units that the user does not keep go' : 'The unit goes';
  const rest = several ? ' If none is kept,' : '';
  const release = button('Release', () =>
    act(
      'Release this reservation?',
      `${unit} to the first user in line, or back to the stock.${rest} ${row.user_id} is notified and can no longer pay. This cannot be undone.`,
      'Release',
      (body) => call('POST', `${path}/release`, body),
      changed,
      keepField(row),
    ),
  );
  const refund = button('Refund', () =>
    act(
      'Record a refund?',
      `${unit} to the first user in line or back to the stock, or ${several ? 'are' : 'is'} burned: the campaign’s refund policy decides. ` +
        'This returns no money: do that with the payment provider. It cannot be undone.',
      'Refund',
      (body) => call('POST', `${path}/refund`, body),
      changed,
      keepField(row),
    ),
  );
  const resend = button('Send events again', () =>
    act(
      'Send the events of this reservation again?',
      'Each enabled webhook gets the events that it received before, with the same ids. A receiver that checks ids ignores those that it has.',
      'Send',
      (reason) => call('POST', `${path}/resend`, reason),
      changed,
    ),
  );
  const actions = [row.status === 'reserved' ? release : null, row.status === 'redeemed' ? refund : null, resend];
  return el(
    'div',
    { class: 'item', role: 'group', 'aria-label': `${row.campaign_name}, order ${row.order_id}` },
    el(
      'p',
      { class: 'title' },
      el('a', { href: `#/campaigns/${encodeURIComponent(row.product_id)}` }, row.campaign_name),
      badge(row),
    ),
    el('dl', { class: 'facts' }, ...facts.flatMap(([name, value]) => [el('dt', {}, name), el('dd', {}, value)])),
    el('p', { class: 'buttons' }, ...actions),
  );
}

function placeItem(place: Place, user: string, changed: () => Promise<void>): HTMLElement {
  const path = `/admin/campaigns/${encodeURIComponent(place.product_id)}/line/remove`;
  const remove = button('Move out of the line', () =>
    act(
      'Move this user out of the line?',
      `${user} loses ${place.position === null ? 'the place' : `position ${count(place.position)}`} in ${place.campaign_name}, and the users behind move up. ` +
        'If they check out again they go to the end. This cannot be undone.',
      'Move out',
      (reason) => call('POST', path, { ...reason, user_id: user }),
      changed,
    ),
  );
  return el(
    'div',
    { class: 'item', role: 'group', 'aria-label': `Place in ${place.campaign_name}` },
    el(
      'p',
      { class: 'title' },
      el('a', { href: `#/campaigns/${encodeURIComponent(place.product_id)}` }, place.campaign_name),
      el('span', {}, placeText(place)),
    ),
    place.joined_at === null ? null : el('p', { class: 'hint' }, `Since ${time(place.joined_at)}`),
    place.status === 'waiting' ? el('p', { class: 'buttons' }, remove) : null,
  );
}

/** How many units a reservation keeps; null for a reservation with one unit. */
function keepField({ qty }: Redemption): Field | null {
  if (qty === 1) return null;
  return field({
    pointer: '#/keep',
    label: 'Units to keep',
    hint: `Of ${count(qty)}. 0 gives back all of them.`,
    attributes: { inputmode: 'numeric', value: '0' },
  });
}

function momentItem(moment: Moment): HTMLElement {
  const about = [moment.product_id, moment.detail, moment.by && `by ${moment.by}`].filter(Boolean).join(' · ');
  return el(
    'li',
    {},
    el('time', { datetime: moment.at }, time(moment.at)),
    el('strong', {}, momentText(moment)),
    el('span', { class: 'hint' }, about),
  );
}
