/** Every BullMQ queue and what its jobs carry. The worker's table of processors must name each (worker/processors.ts). */
export type Jobs = {
  /** Give free units of one campaign to waiting users. */
  promote: { productId: string };
  /** Compare Redis with Postgres unit by unit in one campaign; without one, all live campaigns by their counters. */
  reconcile: { productId?: string; answerTo?: string };
  /** Send to one webhook endpoint what it has not received. */
  deliver: { endpointId: string };
  /** Continue making or importing codes; without an id: find jobs without a worker. */
  codes: { jobId?: string };
};
export type QueueName = keyof Jobs;
export const QUEUE_NAMES = ['promote', 'reconcile', 'deliver', 'codes'] as const satisfies readonly QueueName[];

/** What a worker does at intervals, without a queue (worker/sweeps/sweeps.ts). */
export const SWEEP_NAMES = [
  'expire',
  'tend',
  'schedule',
  'publish',
  'codes',
  'velocity',
  'archive',
  'reconcile',
  'prune',
] as const;
export type SweepName = (typeof SWEEP_NAMES)[number];
