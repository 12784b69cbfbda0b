import type { SweepName } from '../shared/contracts/jobs.js';
import { settledWithin } from '../shared/observability/settled-within.js';
import { runEvery } from '../shared/observability/shared-interval.js';
import { QueueUpkeep } from '../shared/queues/queue-upkeep.js';
import type { Core } from './core.js';
import { SWEEP_RETRY_MAX_MS, type Sweeps } from './sweeps/sweeps.js';

const EVERY_MS = 1_000;
/** Every which time also the queues themselves are checked. */
const CHECK_TURNS = 4;
/** A job that waits longer than its pause by this has been delayed by a clock that jumped. */
const LATE_MS = 1_000;
const STOP_LIMIT_MS = 1_000;
/** No pause between two attempts of a job is longer. */
const RETRY_MAX_MS = 1_000;
/** How long a queue counts as full after a worker was refused a write. */
const FULL_FOR_MS = 3_000;

export type UpkeepDeps = { sweeps: Sweeps; onFailed: (queue: string, error: unknown) => void };

/**
 * Puts the queues right, in every worker: adds the jobs of sweeps that are missing, every second, and repairs what an
 * operator or a clock has done (shared/queues/queue-upkeep.ts). While the queue of the sweeps cannot be used, it runs
 * sweeps without a job: all of them if Redis is too full for jobs, and `schedule` while the home shard is away, so that
 * campaigns of other shards still open. Running a sweep twice does no harm.
 * @returns the function to call when Redis refuses a write because it is full
 */
export function addQueueUpkeep(core: Core, { sweeps, onFailed }: UpkeepDeps): () => void {
  const { shards, queues, metrics, log, life } = core;
  let [fullUntil, stopped] = [Number.NEGATIVE_INFINITY, false];
  let turn = 0;
  let end = () => {};
  let running: Promise<void> | null = null;
  const upkeep = new QueueUpkeep(
    queues,
    ({ name }, jobId) =>
      (name === 'sweeps' ? Math.max(sweeps.everyMs(jobId) ?? 0, SWEEP_RETRY_MAX_MS) : RETRY_MAX_MS) + LATE_MS,
    (queue, repair) => {
      metrics.queueRepairs.inc({ queue, repair });
      log.warn({ queue, repair }, 'a queue was repaired');
    },
  );
  const runDirectly = async (names: readonly SweepName[]) => {
    for (const name of names) {
      if (stopped) return;
      await sweeps.runDirectly(name).catch((error: unknown) => onFailed('sweeps', error));
    }
  };
  const run = async () => {
    const isDue = turn % CHECK_TURNS === 0;
    turn += 1;
    const inService = shards.all.filter(({ gate }) => isDue && gate.isOpen);
    const checks = await Promise.allSettled(inService.map(({ index }) => upkeep.run(index)));
    for (const check of checks)
      if (check.status === 'rejected') log.warn({ reason: String(check.reason) }, 'the queues could not be checked');
    if (!shards.home.gate.isOpen) return runDirectly(['schedule']);
    if (performance.now() < fullUntil) return runDirectly(sweeps.names);
    await queues.addMissing(sweeps.names);
  };
  life.add('upkeep of the queues', {
    start() {
      const tick = () => {
        running ??= run()
          .catch((error: unknown) => onFailed('sweeps', error))
          .finally(() => {
            running = null;
          });
      };
      tick();
      // Repairs at once the differences that a crash may have left.
      running?.then(() => queues.bringForward('reconcile')).catch((error: unknown) => onFailed('sweeps', error));
      end = runEvery(EVERY_MS, tick);
    },
    async quiet() {
      stopped = true;
      end();
      // It may wait for a Redis that is away.
      await settledWithin(running, STOP_LIMIT_MS);
    },
  });
  return () => {
    fullUntil = performance.now() + FULL_FOR_MS;
  };
}
