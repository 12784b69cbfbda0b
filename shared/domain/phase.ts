/** The phase of a sale at a moment. */
export type SalePhase = 'draft' | 'not_started' | 'open' | 'paused' | 'ended';

/** Times in ms. `endsAtMs`: 0 and null = no end. */
type Schedule = {
  status: 'draft' | 'scheduled' | 'open' | 'paused' | 'closed';
  startsAtMs: number;
  endsAtMs: number | null;
};

/**
 * The phase of a sale. It follows from the clock, so a sale opens and ends on time without a worker. `phase_of` in
 * lua/includes/campaign.lua decides the same for scripts; a test compares the two. Browsers load this file: it imports
 * nothing.
 */
export function phaseAt({ status, startsAtMs, endsAtMs }: Schedule, nowMs: number): SalePhase {
  if (status === 'draft') return 'draft';
  if (status === 'closed' || (endsAtMs && nowMs >= endsAtMs)) return 'ended';
  if (status === 'paused') return 'paused';
  return status === 'scheduled' && nowMs < startsAtMs ? 'not_started' : 'open';
}
