import type { RecordState, ReservationRecord } from '../sale/reservation-record.js';
import type { CampaignCopy } from '../sale/sale-copy.js';
import { factOf } from './facts.js';
import type { CoveredTail } from './journal-tail.js';
import { type FirstChange, rewindReservation } from './rewind.js';

/**
 * Returns the whole record of a reservation as it was at an earlier position; null = it did not exist. Where the
 * entries do not say what it was, it takes as many units as it did, and a later entry replaces it.
 * @param row as Postgres has it
 * @param isPaid whether a payment is known that no later entry brings
 */
export function rewindRecord(
  id: string,
  record: ReservationRecord | null,
  row: ReservationRecord | null,
  isPaid: boolean,
  first: FirstChange,
): ReservationRecord | null {
  if (!record) return null;
  const fact = rewindReservation(id, factOf(record), row && factOf(row), first);
  if (!fact) return null;
  const { qty, released, refunded, burned } = fact;
  const change = first('state', id);
  const isChanged = change !== undefined;
  const state = isChanged ? stateOf(fact.state, record, row, isPaid && change.void !== undefined) : record.state;
  const at: ReservationRecord = {
    ...record,
    qty,
    state,
    // A late payment takes another slot, which a row from before it has not.
    slot: isChanged && row && !isEndedThenPaid(state, row) ? row.slot : record.slot,
    dueMs: first('due', id) && row ? row.dueMs : record.dueMs,
  };
  const { reduced: _, ...whole } = at;
  return released + refunded > 0 ? { ...at, reduced: { released, refunded, burned } } : whole;
}

/** Whether a late payment lies between a row and a later state: Redis no longer knows of it after a refund. */
const isEndedThenPaid = (state: RecordState, row: ReservationRecord): boolean =>
  (state === 'redeemed' || state === 'reacquired') && (row.state === 'expired' || row.state === 'released');

/** @param isPaid whether it was paid when it was voided */
function stateOf(
  state: RecordState,
  { dueMs }: ReservationRecord,
  row: ReservationRecord | null,
  isPaid: boolean,
): RecordState {
  if (state === 'redeemed' && row && (row.state === 'reacquired' || isEndedThenPaid(state, row))) return 'reacquired';
  // If nothing was due, it was never unpaid.
  return state === 'reserved' && (dueMs === 0 || isPaid) ? 'redeemed' : state;
}

/** Returns a campaign, or its bucket, as it was at an earlier position. Terms are not journaled, and stay. */
export function rewindCampaign(copy: CampaignCopy, tail: CoveredTail): CampaignCopy {
  const left = tail.first('left', '');
  let { total } = copy;
  const part = copy.part && { ...copy.part, arrived: { ...copy.part.arrived } };
  if (part && left) {
    part.movedOut = left.out - 1;
    part.gave = part.gave.filter(([out]) => out < left.out);
  }
  for (const step of tail.steps()) {
    if (step.fact === 'total' && total !== null) total -= step.added;
    if (part && step.fact === 'sealed') part.sealed = false;
    // Transfers between two buckets arrive in their order.
    if (part && step.fact === 'arrived') part.arrived[step.from] = Math.min(part.arrived[step.from] ?? 0, step.out - 1);
  }
  return { ...copy, status: tail.first('status', '')?.before ?? copy.status, total, part };
}
