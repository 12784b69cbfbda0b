/** A longer estimate is useless, so it is returned as unknown. */
const LONGEST_SECONDS = 86_400;
/** The precision of an estimate: up to `upTo` seconds, it is rounded up to a multiple of `step`. */
const STEPS = [
  { upTo: 60, step: 5 },
  { upTo: 3_600, step: 60 },
  { upTo: LONGEST_SECONDS, step: 600 },
] as const;

/**
 * How long a user at this position will wait if the line keeps its recent pace.
 * @param paceMs milliseconds between two promotions of this campaign; null = too few promotions
 * @returns whole seconds, rounded up; null = unknown
 */
export function estimatedWaitSeconds(position: number, paceMs: number | null): number | null {
  if (paceMs === null) return null;
  const seconds = (position * paceMs) / 1000;
  const rounding = STEPS.find(({ upTo }) => seconds <= upTo);
  return rounding ? Math.ceil(seconds / rounding.step) * rounding.step : null;
}
