import { answer, call, Refused } from './calls.js';
import { card, el, write } from './elements.js';
import { type PaymentEvent, paymentWords } from './payment-words.js';
import { may } from './role.js';
import { time } from './words.js';

type DuplicatePayment = {
  reservation_id: string;
  user_id: string;
  order_id: string;
  already_paid_by: string | null;
  payment_ref: string;
  paid_at: string;
};

const EVERY_MS = 10_000;
const SHOWN = 20;

/**
 * Payments that need an action, and a link to all that providers have reported. Read once, for operators of support.
 */
export function reportedPaymentsCard(product: string): HTMLElement | null {
  if (!may('support')) return null;
  const note = el('p', { class: 'hint' });
  const list = el('ul');
  const linkTo = (query: Record<string, string>, text: string) =>
    el('a', { href: `#/payments?${new URLSearchParams({ product_id: product, ...query })}` }, text);
  const read = async () => {
    try {
      const { data, next_cursor } = await answer<{ data: PaymentEvent[]; next_cursor: string | null }>(
        `/admin/payment-events?${new URLSearchParams({ product_id: product, needs_action: 'true', limit: '5' })}`,
      );
      list.replaceChildren(
        ...data.map((one) =>
          el(
            'li',
            {},
            el('strong', {}, paymentWords(one).text),
            el('span', { class: 'hint' }, ` ${one.payment_ref ?? one.event_id}`),
          ),
        ),
      );
      write(note, data.length === 0 && next_cursor === null ? 'No payment needs an action.' : '');
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      write(note, error.message);
    }
  };
  read();
  const links = el(
    'p',
    {},
    linkTo({}, 'Payments that need an action'),
    ' · ',
    linkTo({ outcome: 'all' }, 'All payments'),
  );
  return card('Payments', {}, note, list, links);
}

/** Reservations that were paid more than once. Hidden while there are none. */
export function paymentsCard(path: string): { root: HTMLElement; close(): void } {
  const body = el('tbody');
  const root = card(
    'Paid twice',
    { hidden: true, class: 'paid-twice' },
    el(
      'p',
      { class: 'error' },
      'These reservations were paid more than once. Refund one of the two payments in the payment service.',
    ),
    el(
      'table',
      { class: 'plain-table' },
      el('caption', { class: 'unseen' }, 'Payments for reservations that were paid already'),
      el(
        'thead',
        {},
        el(
          'tr',
          {},
          el('th', { scope: 'col' }, 'User'),
          el('th', { scope: 'col' }, 'Order'),
          el('th', { scope: 'col' }, 'First payment'),
          el('th', { scope: 'col' }, 'Further payment'),
        ),
      ),
      body,
    ),
  );
  const show = async () => {
    try {
      const found = await call<DuplicatePayment[]>('GET', `${path}/duplicate-payments?limit=${SHOWN}`);
      root.hidden = found.length === 0;
      body.replaceChildren(...found.map(rowOf));
    } catch (error) {
      // The page itself reports that the API does not respond. The next request follows soon.
      if (!(error instanceof Refused)) throw error;
    }
  };
  if (!may('support')) return { root, close: () => {} };
  void show();
  const timer = setInterval(show, EVERY_MS);
  return { root, close: () => clearInterval(timer) };
}

function rowOf({ user_id, order_id, already_paid_by, payment_ref, paid_at }: DuplicatePayment): HTMLElement {
  return el(
    'tr',
    {},
    el('th', { scope: 'row', class: 'user' }, user_id),
    el('td', {}, order_id),
    el('td', {}, already_paid_by ?? ''),
    el('td', { title: time(paid_at) }, payment_ref),
  );
}
