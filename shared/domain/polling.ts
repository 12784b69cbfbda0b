/** The shortest and longest poll interval of a waiting shopper. */
export const POLL_MIN_SECONDS = 2;
export const POLL_MAX_SECONDS = 30;
const POSITIONS_PER_EXTRA_SECOND = 500;
/** Polls within one presence interval: a user may miss two polls before they count as absent. */
const QUESTIONS_A_PRESENCE = 3;

/**
 * How long a shopper at this position should wait before the next poll. It depends only on the content of the response,
 * so that a replayed response has the same value. The head of the line polls often, because it may be served at any
 * moment.
 * @param presenceMs how often a shopper must be seen to keep the place, in ms; 0 = presence is not required
 */
export function pollAfterSeconds(position: number, presenceMs = 0): number {
  const byPlace = Math.min(POLL_MAX_SECONDS, POLL_MIN_SECONDS + Math.floor(position / POSITIONS_PER_EXTRA_SECOND));
  if (presenceMs === 0) return byPlace;
  return Math.max(1, Math.min(byPlace, Math.floor(presenceMs / 1000 / QUESTIONS_A_PRESENCE)));
}
