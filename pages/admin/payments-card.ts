import { call, Refused } from './calls.js';
import { card, el } from './elements.js';
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
