/**
 * What an API process told somebody and Postgres has not confirmed yet. It is enough to write the promise to Postgres without
 * Redis, should Redis lose its data before the journal was written. Leaving the line is not among them: who left and is there again can
 * leave again.
 */
export type Acknowledged = { journalId: string } & (
  | {
      kind: 'reserved';
      no: number;
      reservation: string;
      user: string;
      order: string;
      qty: number;
      /** 0 = nothing to pay, redeemed at once */
      dueMs: number;
      /** Number of the code; null = none. */
      code: number | null;
      terms: number;
      key: string;
      answer: string;
      device: string;
    }
  | {
      kind: 'queued';
      no: number;
      reservation: string;
      user: string;
      order: string;
      qty: number;
      code: number | null;
      key: string;
      answer: string;
      device: string;
    }
  | { kind: 'redeemed' | 'released' | 'expired'; reservation: string }
  | { kind: 'refunded'; reservation: string; burned: boolean }
);
