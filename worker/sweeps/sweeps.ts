import { setTimeout as sleep } from 'node:timers/promises';
import { untilNext } from '../../shared/observability/shared-interval.js';
import type { SweepTurns } from './sweep-turns.js';

/** Periodic work of the workers: its interval in ms, and the function of one run. */
export type Sweep = { everyMs: number; run: () => Promise<void> };

export type SweepsDeps<Name extends string> = {
  sweeps: { readonly [Key in Name]: Sweep };
  turns: Pick<SweepTurns, 'take'>;
  /** Whether Redis is in service. No sweep runs while it is not. */
  inService: () => boolean;
  onFailed: (name: Name, error: Error) => void;
};

/**
 * Runs each sweep at its interval, in one worker at a time. Intervals are measured by the monotonic clock of the
 * process, so a change of the system time has no effect. A run that fails is not repeated: the next run follows at its
 * interval.
 */
export class Sweeps<Name extends string> {
  readonly #stop = new AbortController();
  #loops: Promise<void>[] = [];

  constructor(readonly deps: SweepsDeps<Name>) {}

  start(): void {
    this.#loops = (Object.entries(this.deps.sweeps) as [Name, Sweep][]).map(([name, sweep]) => this.#loop(name, sweep));
  }

  /** Returns when the current runs have ended. */
  async stop(): Promise<void> {
    this.#stop.abort();
    await Promise.all(this.#loops);
  }

  async #loop(name: Name, { everyMs, run }: Sweep): Promise<void> {
    const { inService, turns, onFailed } = this.deps;
    const { signal } = this.#stop;
    while (!signal.aborted) {
      try {
        if (inService() && (await turns.take(name, everyMs)) && !signal.aborted) await run();
      } catch (error) {
        onFailed(name, error instanceof Error ? error : new Error(String(error)));
      }
      await sleep(untilNext(everyMs), undefined, { signal, ref: false }).catch(() => {});
    }
  }
}
