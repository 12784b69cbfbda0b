import type { CampaignStatus } from '../domain/campaign.js';

/** A place in line that ended. `code`: number of its code; null = none. */
export type PlaceThatEnded = { reservation: string; order: string; qty: number; code: number | null };

/**
 * Entries of the journal, as the scripts write them (lua/*.lua, `JOURNALS`). `atMs` and `dueMs` are times by the clock
 * of Redis; `no` is the campaign's number; `bucket` the bucket of a divided campaign, except bucket 0 and where the
 * reservation contains it; `by` who did it (`SettledBy`), undefined = the service itself. The order of `journalId` is
 * the order in which everything happened.
 */
export type JournalEntry = { journalId: string; no: number; atMs: number; bucket?: number } & (
  | {
      kind: 'reserved';
      reservation: string;
      user: string;
      order: string;
      qty: number;
      slot: number;
      /** 0 = nothing to pay */
      dueMs: number;
      /** 0 = not from the line */
      lineNo: number;
      state: 'reserved' | 'redeemed';
      /** Number of the coupon code; null = none. */
      code: number | null;
      /** Version of the terms under which the reservation was made. */
      terms: number;
      key: string;
      answer: string;
      device: string;
      trace: string;
      /**
       * How the reservation takes part in its order (packStacking). null = it does not, or it does as its place in line
       * did.
       */
      stacking: string | null;
      /** JSON of the metadata of the claim; null = none, or the place in line has it. */
      metadata?: string | null;
    }
  | {
      kind: 'queued';
      reservation: string;
      user: string;
      order: string;
      qty: number;
      lineNo: number;
      /** Number of the code of the request; null = none. */
      code: number | null;
      key: string;
      answer: string;
      device: string;
      trace: string;
      stacking: string | null;
      metadata?: string | null;
    }
  | {
      kind: 'redeemed';
      reservation: string;
      slot: number;
      reacquired: boolean;
      payment: string;
      by?: string;
      trace: string;
    }
  /**
   * Another payment of a reservation that was paid already. `first`: reference of the first payment; "" = the first
   * payment had none, or it is unknown.
   */
  | { kind: 'paid_again'; reservation: string; payment: string; first: string; by?: string; trace: string }
  | { kind: 'released' | 'expired' | 'voided'; reservation: string; reason: string; by?: string; trace: string }
  | { kind: 'extended'; reservation: string; dueMs: number; by?: string; trace: string }
  | { kind: 'refunded'; reservation: string; burned: boolean; by?: string; trace: string }
  /**
   * Units were given back, and the reservation keeps others. before, qty: units that it had before and has now.
   * released, refunded, burned: all units that were given back until now (`Reduced` of the record).
   */
  | {
      kind: 'reduced';
      reservation: string;
      before: number;
      qty: number;
      ending: 'released' | 'refunded' | 'burned';
      released: number;
      refunded: number;
      burned: number;
      reason: string;
      by?: string;
      trace: string;
    }
  /** An idempotency record that no other entry contains. */
  | { kind: 'answered'; key: string; answer: string }
  /**
   * left: the user left, or was `absent` for too long. closed: the user cannot be served: needs more units than can be
   * free (`unservable`), has reached the limit, or the record does not wait; '' when no unit can come back, so that the
   * whole line ends.
   */
  | {
      kind: 'left';
      user: string;
      lineNo: number;
      ending: 'left' | 'closed';
      reason: LeftReason;
      /** The operator who removed the user, who then did not leave. `note`: the operator's reason; '' = none. */
      removed?: { by: string; request: string; note: string };
      /** The place; left out in entries of earlier versions. Redis forgets it when the user joins again. */
      place?: PlaceThatEnded;
      trace: string;
    }
  /** No unit can come back, so users with a line number up to this one no longer wait. */
  | { kind: 'line_closed'; upTo: number }
  | {
      kind: 'status';
      action: string;
      before: CampaignStatus;
      status: CampaignStatus;
      actor: string;
      request: string;
      reason?: string;
    }
  /** From now on the units of this bucket go to the line only. */
  | { kind: 'sealed' }
  /** Units and codes that left this bucket for another one. `out`: number of the transfer in this bucket. */
  | { kind: 'moved_out'; to: number; units: number; out: number; codes: readonly number[] }
  /** Units that arrived from another bucket. `out`: number of the transfer there. */
  | { kind: 'moved_in'; from: number; units: number; out: number }
  | { kind: 'restocked'; delta: number; before: number; total: number; actor: string; request: string }
);

export type LeftReason = '' | 'absent' | 'unservable' | 'limit_reached' | 'not_waiting';

export type JournalKind = JournalEntry['kind'];
export type EntryOf<Kind extends JournalKind> = Extract<JournalEntry, { kind: Kind }>;

/**
 * An entry as the stream stores it. An entry that cannot be decoded is handled in this form, because it must be
 * accounted for too.
 */
export type RawEntry = { journalId: string; fields: Record<string, string> };
