/**
 * The advisory locks of one number. In one place, because two uses of a number wait for each other. Those of shards
 * have two numbers, and those of names are made by `hashtext`.
 */
export const ADVISORY_LOCKS = {
  migration: 7_102_002,
  /** Of the shard that writes rows and events. */
  write: 7_102_003,
  /**
   * Shared by transactions that issue codes, from before the announcement until the commit. A process that waits for
   * all of them takes it exclusively.
   */
  issuing: 7_102_004,
} as const;
