/** The longest time for which a response may be replayed for its idempotency key (IDEMPOTENCY_TTL_SECONDS). */
export const LONGEST_IDEMPOTENCY_TTL_MS = 30 * 86_400_000;
