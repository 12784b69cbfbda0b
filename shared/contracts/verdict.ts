/** One thing that the two sides do not agree on, and why it counts as wrong. */
export type Difference = {
  reservation: string | null;
  side: 'redis' | 'postgres' | 'counters';
  why: string;
  redis: string | null;
  postgres: string | null;
};

/** What `npm run ledger` prints. All of the last four are 0 when nothing is wrong. */
export type Verdict = {
  product_id: string;
  /** Reservations that Redis made and Postgres did not refuse. */
  confirmed: number;
  /** How many of them have their row. */
  persisted: number;
  voided: number;
  /** Journal entries, of all campaigns, that were still under way at the end. */
  in_flight: number;
  /** Confirmed, and neither in Postgres nor under way. */
  lost: number;
  /** Rows beyond what their user may have, or sharing an order id. */
  duplicated: number;
  /** Units taken beyond the total. */
  over_cap: number;
  /** Everything else the two sides do not agree on. */
  drift: number;
  differences: Difference[];
};
