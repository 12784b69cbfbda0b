import type { Verdict } from './verdict.js';

/** What `POST /admin/campaigns/:id/reconcile` answers: the verdict after the repair, and what was found and done. */
export type Reconciliation = Verdict & {
  before: Verdict;
  repaired: {
    /** Journal entries written again. */
    journaled: number;
    /** Whether the campaign was filled from Postgres. */
    refilled: boolean;
  };
};
