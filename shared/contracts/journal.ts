import type { CampaignStatus } from '../domain/campaign.js';

/**
 * Entries of the journal as the scripts write them (lua/*.lua, `JOURNALS`). `at` and `due` are milliseconds of Redis's
 * clock; `no` is the campaign's number. `journalId` orders everything that ever happened.
 */
export type JournalEntry = { journalId: string; no: number; atMs: number } & (
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
      /** Version of the terms it was made under. */
      terms: number;
      key: string;
      answer: string;
      device: string;
      trace: string;
      /** How it takes part in its order (packStacking); null = not, or as its place did, or an older version wrote it. */
      stacking: string | null;
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
    }
  | { kind: 'redeemed'; reservation: string; slot: number; reacquired: boolean; payment: string; trace: string }
  /** Another payment of what was paid already. `first`: reference of the first one; "" = that had none, or none is known. */
  | { kind: 'paid_again'; reservation: string; payment: string; first: string; trace: string }
  | { kind: 'released' | 'expired' | 'voided'; reservation: string; reason: string; trace: string }
  | { kind: 'refunded'; reservation: string; burned: boolean; trace: string }
  /** An answer that no other entry carries. */
  | { kind: 'answered'; key: string; answer: string }
  /**
   * left: the user left, or was absent for too long; closed: the user cannot be served, because no unit can come back
   * (reason ''), the user has reached the limit, or the record does not wait.
   */
  | {
      kind: 'left';
      user: string;
      lineNo: number;
      ending: 'left' | 'closed';
      reason: LeftReason;
      trace: string;
    }
  /** Nothing can come back: users who wait with a line number up to this one wait no more. */
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
  | { kind: 'restocked'; delta: number; before: number; total: number; actor: string; request: string }
);

export type LeftReason = '' | 'limit_reached' | 'not_waiting';

export type JournalKind = JournalEntry['kind'];
export type EntryOf<Kind extends JournalKind> = Extract<JournalEntry, { kind: Kind }>;

/** An entry as it lies in the stream, decoded or not: what cannot be decoded must still be accounted for. */
export type RawEntry = { journalId: string; fields: Record<string, string> };
