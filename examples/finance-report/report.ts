import type { Event } from '../read-events.js';

/** A redemption, as `GET /admin/campaigns/:id/redemptions` has it. */
export type Redemption = {
  redemption_id: string;
  user_id: string;
  order_id: string;
  status: string;
  payment_ref: string | null;
};
/** A line of the export of the payment provider. `status`: paid, or refunded. */
export type ProviderPayment = { payment_ref: string; status: 'paid' | 'refunded'; amount: string };

export type Finding = {
  kind: keyof typeof FINDINGS;
  payment_ref: string;
  redemption_id: string;
  order_id: string;
  user_id: string;
  amount: string;
};

/** Each kind of finding, and what to do. */
export const FINDINGS = {
  missing_at_provider: 'the unit was given, but the provider has no payment: claim it, or refund the unit',
  missing_here: 'the provider took money, but no redemption has the payment: refund it',
  paid_again: 'a second payment for a redemption that was paid already: refund it',
  not_refunded: 'the redemption is over, but the provider still has the money: refund it',
  refunded_there_only: 'the provider gave the money back, but the user still has the unit: refund the redemption',
  twice_in_export: 'the export has the payment more than once: ask the provider',
  event_missing: 'redeemed, but no event reported the payment: readers of events do not know of it',
  event_only: 'an event reported the payment, but the redemptions do not have it: run npm run ledger',
} as const;

const REDEEMED = 'dev.doorbuster.redemption.redeemed.v1';
const DUPLICATED = 'dev.doorbuster.payment.duplicated.v1';

type Payments = { redeemed: Map<string, string>; duplicated: Map<string, string> };

/** Payment → reservation, from events that may come more than once. */
function paymentsOf(events: readonly Event[]): Payments {
  const found: Payments = { redeemed: new Map(), duplicated: new Map() };
  for (const { type, data } of events) {
    if (data.payment_ref === null || data.payment_ref === undefined) continue;
    const payment = [String(data.payment_ref), String(data.reservation_id)] as const;
    if (type === REDEEMED) found.redeemed.set(...payment);
    if (type === DUPLICATED) found.duplicated.set(...payment);
  }
  return found;
}

/**
 * Compares the redemptions of a campaign with the payments that events reported, and with the export of the payment
 * provider.
 * @param events null = are not compared, for instance because the topic no longer has them
 * @returns what is missing or different on either side, in the order of `FINDINGS`
 */
export function compare(
  redemptions: readonly Redemption[],
  events: readonly Event[] | null,
  exported: readonly ProviderPayment[],
): Finding[] {
  const findings: Finding[] = [];
  const byPayment = new Map(redemptions.map((one) => [one.payment_ref, one]));
  const byId = new Map(redemptions.map((one) => [one.redemption_id, one]));
  const atProvider = new Map(exported.map((one) => [one.payment_ref, one]));
  const { redeemed, duplicated } = paymentsOf(events ?? []);
  const add = (kind: Finding['kind'], payment: string, redemption?: Redemption, amount = '') =>
    findings.push({
      kind,
      payment_ref: payment,
      redemption_id: redemption?.redemption_id ?? '',
      order_id: redemption?.order_id ?? '',
      user_id: redemption?.user_id ?? '',
      amount: amount || (atProvider.get(payment)?.amount ?? ''),
    });

  for (const redemption of redemptions) {
    const { payment_ref: payment, status } = redemption;
    if (payment === null) continue;
    const there = atProvider.get(payment);
    if (status === 'redeemed') {
      if (!there) add('missing_at_provider', payment, redemption);
      if (there?.status === 'refunded') add('refunded_there_only', payment, redemption);
      if (events && !redeemed.has(payment)) add('event_missing', payment, redemption);
    } else if (there?.status === 'paid') add('not_refunded', payment, redemption);
  }
  const seen = new Set<string>();
  for (const { payment_ref: payment, status, amount } of exported) {
    if (seen.has(payment)) add('twice_in_export', payment, byPayment.get(payment), amount);
    else if (status === 'paid' && !byPayment.has(payment)) {
      const paid = byId.get(duplicated.get(payment) ?? '');
      add(paid ? 'paid_again' : 'missing_here', payment, paid, amount);
    }
    seen.add(payment);
  }
  for (const [payment, reservation] of redeemed)
    if (!byPayment.has(payment)) add('event_only', payment, byId.get(reservation));
  const order = Object.keys(FINDINGS);
  return findings.sort((a, b) => order.indexOf(a.kind) - order.indexOf(b.kind));
}
