import type { RedemptionStatus } from '../../shared/domain/reservation.js';
import type { AcknowledgedState } from '../../shared/postgres/region-acknowledgements.js';

/** What a database has of a reservation; null = none. `place`: of its place in line. */
export type Known = {
  status: RedemptionStatus | null;
  qty: number | null;
  extended: boolean | null;
  /** References of its payments. */
  payments: readonly string[];
  place: 'waiting' | 'promoted' | 'left' | 'closed' | null;
};

const PAID = ['redeemed', 'refunded', 'voided'] as const;
const ENDED = ['released', 'expired', ...PAID] as const;
/**
 * The states of a reservation in which each decision about it is contained. A reservation that has ended can be paid
 * again, so `redeemed` may come after `released`.
 */
const CONTAINED_IN: Readonly<Record<AcknowledgedState, readonly RedemptionStatus[]>> = {
  reserved: ['reserved', ...ENDED],
  redeemed: PAID,
  released: ENDED,
  expired: ENDED,
  refunded: ['refunded', 'voided'],
  // Without the extension a reservation expires too early, so `expired` does not contain it.
  extended: ['released', ...PAID],
  paid_again: [],
  queued: ['reserved', ...ENDED],
  left: [],
};

/**
 * Whether a database has a decision, or a later state of its reservation.
 * @param decision `qty`: units that the reservation has, if some were given back; `payment_ref`: of a confirmed
 *   payment; null = not said
 */
export function isReached(
  { status, qty, payment_ref }: { status: AcknowledgedState; qty: number | null; payment_ref: string | null },
  known: Known,
): boolean {
  if (payment_ref !== null && known.payments.length > 0 && !known.payments.includes(payment_ref)) return false;
  if (status === 'queued' && known.place !== null) return true;
  if (status === 'left') return known.place !== null && known.place !== 'waiting';
  if (status === 'paid_again') return known.payments.length > (payment_ref === null ? 1 : 0);
  if (status === 'extended' && known.extended) return true;
  if (known.status === null || !CONTAINED_IN[status].includes(known.status)) return false;
  return qty === null || known.qty === null || known.qty <= qty;
}
