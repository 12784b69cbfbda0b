import type { Reconciliation } from './reconciliation.js';

/** Data of the jobs of a queue, and what a finished job returns. */
type Work<Data, Result = void> = { data: Data; result: Result };

/**
 * Every BullMQ queue with the data and the result of its jobs. A queue without a processor in worker/processors.ts does
 * not compile. A job only names work: what is to be done is in the journal, in Postgres or in the records of a
 * campaign. So a job that runs twice does no harm, and a lost one is added again.
 */
export type Jobs = {
  /** Drains the journal of a shard to Postgres. `upTo` is the entry that the job was added for, for people. */
  persist: Work<{ shard: number; upTo: string }, { entries: number; batches: number }>;
  /** Expires overdue reservations and maintains the lines of campaigns of a shard. */
  expire: Work<{ shard: number; products: readonly string[] }, { expired: number; promoted: number; left: number }>;
  /** Promotes waiting users of a campaign to free units. */
  promote: Work<{ productId: string }, { promoted: number }>;
  /** Sends a webhook endpoint the events that it has not received. */
  deliver: Work<{ endpointId: string }>;
  /** Continues a generation or import of codes. */
  codes: Work<{ jobId: string }>;
  /** Compares a campaign in Redis with Postgres, unit by unit. */
  reconcile: Work<{ productId: string }, Reconciliation | null>;
  /** Runs a sweep, and itself again at the interval of the sweep. */
  sweeps: Work<{ sweep: SweepName }>;
};
export type QueueName = keyof Jobs;
export type JobData<Name extends QueueName> = Jobs[Name]['data'];
export type JobResult<Name extends QueueName> = Jobs[Name]['result'];

/** Periodic work over all shards and over what belongs to no shard. `push` runs only where Web Push is set up. */
export const SWEEP_NAMES = [
  'schedule',
  'publish',
  'codes',
  'archive',
  'reconcile',
  'prune',
  'minutes',
  'payments',
  'erasures',
  'push',
] as const;
export type SweepName = (typeof SWEEP_NAMES)[number];

/** The data of a job that may be anybody's. */
type Fields = Readonly<Record<string, unknown>>;

/**
 * `home`: one queue, on the server of the home shard. `each`: one queue for each shard, on the server of that shard, so
 * that a shard that is away holds up its own campaigns only.
 *
 * `again`: whether a job that is added during a run of the same work runs after it. Otherwise it is dropped, because
 * its work is found again.
 *
 * `jobs`: `few` = there are no more identities than shards or sweeps.
 */
type About<Name extends QueueName> = {
  where: 'home' | 'each';
  again: boolean;
  jobs: 'few' | 'many';
  /** Whether the data can be used: anyone with access to Redis can add a job. */
  accepts: (data: Fields) => boolean;
  /** Names the work. A queue has one active and at most one next job with the same identity. */
  identity: (data: JobData<Name>) => string;
  /** What the job does, for the dashboard. */
  words: (data: JobData<Name>) => string;
};

export const QUEUES: { readonly [Name in QueueName]: About<Name> } = {
  persist: {
    ...{ where: 'each', again: true, jobs: 'few' },
    accepts: ({ shard }) => Number.isInteger(shard),
    identity: () => 'journal',
    words: ({ shard }) => `Write the journal of shard ${shard} to Postgres`,
  },
  expire: {
    ...{ where: 'each', again: false, jobs: 'few' },
    accepts: ({ shard, products }) => Number.isInteger(shard) && areTexts(products),
    identity: () => 'deadlines',
    words: ({ shard, products }) => `End what is overdue in shard ${shard}: ${listed(products)}`,
  },
  promote: {
    ...{ where: 'each', again: true, jobs: 'many' },
    accepts: ({ productId }) => isText(productId),
    identity: ({ productId }) => productId,
    words: ({ productId }) => `Promote users who wait for ${productId}`,
  },
  deliver: {
    ...{ where: 'home', again: true, jobs: 'many' },
    accepts: ({ endpointId }) => isText(endpointId),
    identity: ({ endpointId }) => endpointId,
    words: ({ endpointId }) => `Deliver events to the webhook endpoint ${endpointId}`,
  },
  codes: {
    ...{ where: 'home', again: true, jobs: 'many' },
    accepts: ({ jobId }) => isText(jobId),
    identity: ({ jobId }) => jobId,
    words: ({ jobId }) => `Issue the codes of job ${jobId}`,
  },
  reconcile: {
    ...{ where: 'home', again: false, jobs: 'many' },
    accepts: ({ productId }) => isText(productId),
    identity: ({ productId }) => productId,
    words: ({ productId }) => `Compare ${productId} in Redis with Postgres`,
  },
  sweeps: {
    ...{ where: 'home', again: false, jobs: 'few' },
    accepts: ({ sweep }) => SWEEP_NAMES.includes(sweep as SweepName),
    identity: ({ sweep }) => sweep,
    words: ({ sweep }) => `Sweep: ${sweep}`,
  },
};
export const QUEUE_NAMES = Object.keys(QUEUES) as readonly QueueName[];

/** Whether a job of a queue has data that its processor can use. */
export function isUsable<Name extends QueueName>(name: Name, data: unknown): data is JobData<Name> {
  return typeof data === 'object' && data !== null && QUEUES[name].accepts(data as Fields);
}

/** What a job does, for the dashboard and the log. */
export const wordsOf = <Name extends QueueName>(name: Name, data: unknown): string =>
  isUsable(name, data) ? QUEUES[name].words(data) : 'A job with data that cannot be used';

/** Name of the queue of a shard in Redis and on the dashboard: `persist`, `persist-1`, `persist-2` … */
export const queueOf = (name: QueueName, shard: number): string => (shard === 0 ? name : `${name}-${shard}`);

const isText = (value: unknown): boolean => typeof value === 'string' && value !== '';
const areTexts = (value: unknown): boolean => Array.isArray(value) && value.every(isText);

function listed(products: readonly string[]): string {
  const [first, ...others] = products;
  if (first === undefined) return 'nothing';
  return others.length === 0 ? first : `${first} and ${others.length} more`;
}
