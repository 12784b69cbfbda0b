import { setTimeout as sleep } from 'node:timers/promises';
import type { Cluster } from './cluster/cluster.js';
import { faultNamed } from './faults/all-faults.js';
import type { Lane } from './faults/fault.js';
import type { History } from './history.js';
import type { PlannedFault } from './plan.js';
import type { Random } from './random.js';

/** Strikes the cluster as planned: the faults of one lane one after another, those of different lanes side by side. */
export class Nemesis {
  /** Faults that could not be caused or healed: an error of the program, not of the system under test. */
  readonly failures: string[] = [];
  #active = 0;
  /** The fault that strikes each lane, or struck it last. */
  readonly #striking = new Map<Lane, Promise<void>>();

  constructor(
    readonly cluster: Cluster,
    readonly history: History,
    readonly random: Random,
    readonly folder: string,
    readonly print: (line: string) => void,
  ) {}

  /** Returns when every fault is healed. */
  async run(plan: readonly PlannedFault[], signal: AbortSignal): Promise<void> {
    const lanes = new Set(plan.map(({ lane }) => lane));
    const began = performance.now();
    await Promise.all(
      [...lanes].map((lane) =>
        this.#runLane(
          plan.filter((one) => one.lane === lane),
          began,
          signal,
        ),
      ),
    );
  }

  async #runLane(plan: readonly PlannedFault[], began: number, signal: AbortSignal): Promise<void> {
    for (const planned of plan) {
      await sleep(Math.max(0, planned.atMs - (performance.now() - began)), undefined, { signal }).catch(() => {});
      if (planned.after) await this.#striking.get(planned.after);
      if (signal.aborted) return;
      const strike = this.#strike(planned, planned.lane);
      this.#striking.set(planned.lane, strike);
      await strike;
    }
  }

  async #strike({ id, fault: name }: PlannedFault, lane: Lane): Promise<void> {
    const began = this.history.now();
    const fault = name.includes('-') ? name : `${name} ${lane}`;
    this.history.event({ what: 'fault', fault, phase: 'begin', id });
    this.#active += 1;
    try {
      const random = this.random.fork(`fault-${id}`);
      await faultNamed(name).strike(
        { cluster: this.cluster, history: this.history, random, folder: this.folder },
        lane,
      );
    } catch (error) {
      const details = error instanceof Error && 'details' in error && error.details ? ` (${error.details})` : '';
      const failure = `${fault}: ${error instanceof Error ? error.message : error}${details}`;
      this.failures.push(failure);
      this.print(`a fault could not be caused or healed: ${failure}`);
    }
    this.#active -= 1;
    this.history.event({ what: 'fault', fault, phase: 'end', id });
    const seconds = (ms: number) => (ms / 1_000).toFixed(1).padStart(6);
    this.print(`${seconds(began)} s to ${seconds(this.history.now())} s  ${fault}`);
    if (this.#active === 0) this.history.event({ what: 'calm' });
  }
}
