/** An event of a payment provider as GET /admin/payment-events returns it. */
export type PaymentEvent = {
  provider: string;
  event_id: string;
  kind: 'succeeded' | 'failed' | 'expired' | 'refunded';
  outcome: string;
  partial: boolean;
  payment_ref: string | null;
  /** In minor units. */
  amount: number | null;
  currency: string | null;
  received_at: string;
  refunded_at: string | null;
  /** When an operator marked that it needs no action. */
  settled_at: string | null;
  reservation_id: string | null;
  product_id: string | null;
  campaign_name: string | null;
  user_id: string | null;
  order_id: string | null;
  status: string | null;
};

type Words = { text: string; tone: 'good' | 'warn' | 'off' };

/** Outcome → what happened, and what support does about it. */
export const OUTCOMES: Record<string, string> = {
  confirmed: 'Paid',
  reacquired: 'Paid late, and got a free unit',
  mismatch: 'Paid, but another amount than the price: compare them',
  duplicate: 'Paid a second time: refund one of the payments',
  repeated: 'Reported again, counted once',
  late: 'Paid too late: refund it',
  released: 'Not paid, the unit was returned',
  refunded: 'Refunded',
  refunded_before: 'Refunded before the payment was reported: check that the money is back',
  unpaid: 'Refund of a payment that was not counted',
  still_paid: 'Refunded, another payment is left',
  partial: 'A part of the amount: decide in the shop',
  recorded: 'The attempt failed, the user may try again',
  settled: 'Nothing to return',
  unknown: 'No such reservation: find out what was paid',
  unrelated: 'Names no reservation',
};
/** What is said once the payment was refunded. */
const RETURNED: Record<string, string> = {
  late: 'Paid too late, and refunded',
  duplicate: 'Paid a second time, and refunded',
  mismatch: 'Paid, but another amount than the price, and refunded',
  partial: 'A part of the amount, and refunded',
  unknown: 'No such reservation, and refunded',
};
const OPEN = ['late', 'duplicate', 'refunded_before', 'mismatch', 'partial', 'unknown'];

/** What an event means for support. A payment that was returned since or settled by an operator needs nothing more. */
export function paymentWords(event: PaymentEvent): Words {
  const { kind, outcome, refunded_at, settled_at } = event;
  if (!OPEN.includes(outcome))
    return { text: OUTCOMES[outcome] ?? outcome, tone: kind === 'succeeded' ? 'good' : 'off' };
  const returned = refunded_at === null ? undefined : RETURNED[outcome];
  if (returned !== undefined) return { text: returned, tone: 'off' };
  if (settled_at !== null) return { text: `${openText(event).split(':')[0]}, and settled by an operator`, tone: 'off' };
  return { text: openText(event), tone: outcome === 'unknown' && kind !== 'succeeded' ? 'off' : 'warn' };
}

function openText({ kind, outcome }: PaymentEvent): string {
  if (outcome === 'partial' && kind === 'refunded') return 'A part was refunded: decide in the shop';
  if (outcome === 'unknown' && kind !== 'succeeded') return 'No such reservation';
  return String(OUTCOMES[outcome]);
}

/** Which field of the search a typed text is. */
export function paymentSearchOf(text: string): [string, string] | null {
  const typed = text.trim();
  if (typed === '') return null;
  if (/^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i.test(typed)) return ['reservation_id', typed];
  return [typed.startsWith('ord_') ? 'order_id' : 'payment_ref', typed];
}
