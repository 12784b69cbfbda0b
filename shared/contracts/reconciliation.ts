import type { Verdict } from './verdict.js';

/**
 * The result of `POST /admin/campaigns/:id/reconcile`: the verdict after the repair, the verdict before it, and the
 * repairs.
 */
export type Reconciliation = Verdict & {
  before: Verdict;
  repaired: {
    /** Reservations of which Postgres lacked something. */
    written: number;
    /** Whether the campaign was filled from Postgres. */
    refilled: boolean;
  };
};
