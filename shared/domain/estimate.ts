/** Beyond a day it is of no use; "unknown" is more honest. */
const LONGEST_SECONDS = 86_400;
/** How exact an estimate pretends to be: up to so many seconds it is rounded up to a multiple of the step. */
const STEPS = [
  { upTo: 60, step: 5 },
  { upTo: 3_600, step: 60 },
  { upTo: LONGEST_SECONDS, step: 600 },
] as const;

/**
 * How long a user at this place will wait if the line goes on as fast as it lately did.
 * @param paceMs milliseconds between two promotions, of this campaign; null = too few to say
 * @returns whole seconds, rounded up; null = unknown
 */
export function estimatedWaitSeconds(position: number, paceMs: number | null): number | null {
  if (paceMs === null) return null;
  const seconds = (position * paceMs) / 1000;
  const rounding = STEPS.find(({ upTo }) => seconds <= upTo);
  return rounding ? Math.ceil(seconds / rounding.step) * rounding.step : null;
}
