/** Fastest and slowest pace at which a waiting shopper is asked to poll. */
export const POLL_MIN_SECONDS = 2;
export const POLL_MAX_SECONDS = 30;
const POSITIONS_PER_EXTRA_SECOND = 500;
/** A user who must be seen may miss two polls before they count as gone. */
const QUESTIONS_A_PRESENCE = 3;

/**
 * How long a shopper at this place should wait before the next poll. A function of what the response says, so that a
 * replayed one carries the first one's value. The head of the line asks often, since it may be served any moment.
 * @param presenceMs how often a shopper must be seen to keep the place; 0 = presence does not matter
 */
export function pollAfterSeconds(position: number, presenceMs = 0): number {
  const byPlace = Math.min(POLL_MAX_SECONDS, POLL_MIN_SECONDS + Math.floor(position / POSITIONS_PER_EXTRA_SECOND));
  if (presenceMs === 0) return byPlace;
  return Math.max(1, Math.min(byPlace, Math.floor(presenceMs / 1000 / QUESTIONS_A_PRESENCE)));
}
