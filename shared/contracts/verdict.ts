/** Where a difference shows: a unit or place that one of the engines lacks, or counters that differ. */
export const DIFFERENCE_SIDES = ['redis', 'postgres', 'counters'] as const;

/** One difference between Redis and Postgres, and its description. */
export type Difference = {
  reservation: string | null;
  side: (typeof DIFFERENCE_SIDES)[number];
  why: string;
  redis: string | null;
  postgres: string | null;
};

/** The output of `npm run ledger`. `lost`, `duplicated`, `over_cap` and `drift` are 0 when nothing is wrong. */
export type Verdict = {
  product_id: string;
  /** Reservations that Redis made and Postgres did not reject. */
  confirmed: number;
  /** How many of the confirmed reservations have a row in Postgres. */
  persisted: number;
  voided: number;
  /** Journal entries of all campaigns that were not yet persisted at the end of the comparison. */
  in_flight: number;
  /** Confirmed reservations that are neither in Postgres nor in the journal. */
  lost: number;
  /** Rows beyond the limit of their user. */
  duplicated: number;
  /** Units taken beyond the total. */
  over_cap: number;
  /** All other differences between Redis and Postgres. */
  drift: number;
  differences: Difference[];
};

/** Whether nothing is lost, duplicated, over the cap or drifted. */
export function isClean({ lost, duplicated, over_cap, drift }: Verdict): boolean {
  return lost + duplicated + over_cap + drift === 0;
}
