/** The shortest and longest poll interval of a waiting shopper. */
export const POLL_MIN_SECONDS = 2;
export const POLL_MAX_SECONDS = 30;
const POSITIONS_PER_EXTRA_SECOND = 500;
/** Polls within one presence interval: a user may miss two polls before they count as absent. */
const QUESTIONS_A_PRESENCE = 3;

/** The longest poll interval at an overloaded process, and how much longer an interval is there. */
const POLL_OVERLOADED_SECONDS = 60;
const OVERLOADED_TIMES = 4;

/**
 * How long a shopper should wait before the next poll if the process is overloaded. The head of the line polls as often
 * as ever, because it may be served at any moment.
 * @param position 0 = not in line
 */
export function pollWhileOverloaded(seconds: number, position: number): number {
  const isHead = position > 0 && position < POSITIONS_PER_EXTRA_SECOND;
  return isHead ? seconds : Math.min(POLL_OVERLOADED_SECONDS, seconds * OVERLOADED_TIMES);
}

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
