import type { SweepName } from '../../shared/contracts/jobs.js';
import { RunAgain, type RunningJob } from '../../shared/queues/job-worker.js';

/** Periodic work of the workers: its interval in ms, and the function of one run. */
export type Sweep = { everyMs: number; run: () => Promise<void> };

/** The longest pause before the next attempt of a sweep that failed. */
export const SWEEP_RETRY_MAX_MS = 5_000;

/**
 * Runs the jobs of the queue `sweeps`. Each sweep is one job, which moves itself by its interval. So a sweep runs in
 * one worker at a time, and never beside itself. Workers add a job that is missing (worker/queue-upkeep.ts).
 */
export class Sweeps {
  readonly #table: ReadonlyMap<SweepName, Sweep>;
  /** When a sweep last began in this process without a job (monotonic, ms). */
  readonly #directAt = new Map<SweepName, number>();

  /** @param table null = the sweep is not set up */
  constructor(table: { readonly [Name in SweepName]: Sweep | null }) {
    const entries = Object.entries(table).flatMap(([name, sweep]) => (sweep ? [[name, sweep] as const] : []));
    this.#table = new Map(entries as [SweepName, Sweep][]);
  }

  /** The sweeps that are set up. */
  get names(): readonly SweepName[] {
    return [...this.#table.keys()];
  }

  /** Interval of a sweep in ms; null = it is not set up. */
  everyMs(name: string): number | null {
    return this.#table.get(name as SweepName)?.everyMs ?? null;
  }

  async run(name: SweepName, { hasFailed }: Pick<RunningJob, 'hasFailed'>): Promise<undefined | RunAgain> {
    const sweep = this.#table.get(name);
    if (!sweep) return undefined;
    await sweep.run();
    // A job that failed before keeps its reason. It ends here, and a worker adds a new one.
    return hasFailed ? undefined : new RunAgain(sweep.everyMs);
  }

  /** Runs a sweep in this process without a job, while the queue cannot be used; at its interval at most. */
  async runDirectly(name: SweepName): Promise<void> {
    const sweep = this.#table.get(name);
    const now = performance.now();
    if (!sweep || now - (this.#directAt.get(name) ?? Number.NEGATIVE_INFINITY) < sweep.everyMs) return;
    this.#directAt.set(name, now);
    await sweep.run();
  }
}

/** The pause before the next attempt of a sweep, ms. */
export const sweepRetryMs = (attempt: number): number => Math.min(SWEEP_RETRY_MAX_MS, 1_000 * attempt);
