/** How long a device token is valid. */
export const TOKEN_LIFE_MS = 30_000;
/**
 * How far the clock that made a token may differ from the one of Redis, and how long a token is accepted after its end.
 */
export const TOKEN_SKEW_MS = 30_000;
