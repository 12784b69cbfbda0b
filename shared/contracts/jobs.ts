/** Every BullMQ queue and what its jobs carry. The worker's table of processors must name each (worker/processors.ts). */
export type Jobs = {
  /** End reservations whose deadline has passed, in every campaign. */
  expire: Record<string, never>;
  /** Keep the lines honest: who is not there, who can never be served, lines that wait for nothing. */
  tend: Record<string, never>;
  /** Hand free units of one campaign to those who wait. */
  promote: { productId: string };
  /** Compare Redis with Postgres: all live campaigns by their counters, or one of them unit by unit. */
  reconcile: { productId?: string; answerTo?: string };
  /** Start, finish and preheat campaigns by their times. */
  schedule: Record<string, never>;
  /** Carry the outbox to the stream and wake the webhooks; one job a commit (`upTo`), and an interval. */
  publish: { upTo?: string };
  /** Tell one webhook endpoint what it has not heard. */
  deliver: { endpointId: string };
  /** Forget events that everybody has heard long ago, and attempts that were kept long enough. */
  prune: Record<string, never>;
  /** Go on with making or importing codes; without an id: find the jobs that were left lying. */
  codes: { jobId?: string };
  /** Pause campaigns that meet far more attempts than usual. */
  velocity: Record<string, never>;
  /** Take campaigns out of Redis that are over. */
  archive: Record<string, never>;
};
export type QueueName = keyof Jobs;
export const QUEUE_NAMES = [
  'expire',
  'tend',
  'promote',
  'schedule',
  'reconcile',
  'publish',
  'deliver',
  'prune',
  'codes',
  'velocity',
  'archive',
] as const satisfies readonly QueueName[];
