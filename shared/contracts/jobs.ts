/**
 * Every BullMQ queue with the data of its jobs. The table of processors in worker/processors.ts must have an entry for
 * each.
 */
export type Jobs = {
  /** Promotes waiting users of one campaign to free units. */
  promote: { productId: string };
  /**
   * Compares Redis with Postgres: one campaign unit by unit, or without `productId` all live campaigns by their
   * counters.
   */
  reconcile: { productId?: string; answerTo?: string };
  /** Sends one webhook endpoint the events that it has not received. */
  deliver: { endpointId: string };
  /** Continues a generation or import of codes; without `jobId`, finds jobs that no worker is processing. */
  codes: { jobId?: string };
};
export type QueueName = keyof Jobs;
export const QUEUE_NAMES = ['promote', 'reconcile', 'deliver', 'codes'] as const satisfies readonly QueueName[];

/**
 * Sweeps over the campaigns of one shard, which workers run at intervals and without a queue (worker/sweeps/sweeps.ts).
 */
export type ShardSweepName = 'expire' | 'tend' | 'schedule' | 'velocity' | 'archive';
/** Sweeps over what belongs to no shard. */
export type HomeSweepName = 'publish' | 'codes' | 'reconcile' | 'prune' | 'minutes';
/** A sweep that runs only where it is set up: notifications by Web Push. */
export type OptionalSweepName = 'push';
export type SweepName = ShardSweepName | HomeSweepName | OptionalSweepName;
