/** Fastest and slowest pace at which a waiting shopper is asked to poll. */
export const POLL_MIN_SECONDS = 2;
export const POLL_MAX_SECONDS = 30;
const POSITIONS_PER_EXTRA_SECOND = 500;

/**
 * How long a shopper at this place should wait before he asks again. A function of the position alone, so that a
 * replayed answer carries the first one's value. The head of the line asks often, since it may be served any moment.
 */
export function pollAfterSeconds(position: number): number {
  return Math.min(POLL_MAX_SECONDS, POLL_MIN_SECONDS + Math.floor(position / POSITIONS_PER_EXTRA_SECOND));
}
