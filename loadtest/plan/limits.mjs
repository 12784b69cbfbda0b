// Limits of the service that a plan depends on.

/** Of the service (shared/config/limits.ts, shared/domain/polling.ts, docs/configuration.md). A test compares them. */
export const LIMITS_OF_SERVICE = {
  checkoutsInFlight: 10_000,
  socketsPerProcess: 20_000,
  promisesKept: 100_000,
  refuseAboveMemory: 0.9,
  pollMinSeconds: 2,
  pollMaxSeconds: 30,
  positionsPerPollSecond: 500,
  journalLimit: 2_000_000,
  redisCommandMs: 1_000,
  /** Requests of one campaign that an API process sends to Redis at once: four calls of 64. */
  sentAtOnce: 256,
};
