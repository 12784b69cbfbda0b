import type { Log } from './log.js';
import type { Stoppable } from './shutdown.js';

type Step = () => Promise<void> | void;

/** One thing of a process that runs. What has a `start` has an end as well, or it does not compile. */
export type Part = { start?: Step } & ({ quiet: Step; stop?: Step } | { quiet?: Step; stop: Step });

/** The `stop` of a subscription, which ends when the connections of its process are closed. */
export const endsWithItsConnection: Step = () => {};

/**
 * Everything in one process that runs, each part registered where it is made. Parts start in the order of their
 * registration and end in the opposite order, so that a part ends before what it uses.
 */
export class Lifecycle implements Stoppable {
  readonly #starts: Step[] = [];
  readonly #quiets: { name: string; run: Step }[] = [];
  readonly #stops: { name: string; run: Step }[] = [];
  readonly #errors: unknown[] = [];

  constructor(readonly log: Log) {}

  /** @param name as the log names the part when it cannot be stopped */
  add(name: string, part: Part): void {
    if (part.start) this.#starts.push(() => part.start?.());
    if (part.quiet) this.#quiets.push({ name, run: () => part.quiet?.() });
    if (part.stop) this.#stops.push({ name, run: () => part.stop?.() });
  }

  /** Starts every part, each when the one before it has started. @throws what a part throws; no other part is started then */
  async start(): Promise<void> {
    for (let start = this.#starts.shift(); start; start = this.#starts.shift()) await start();
  }

  /** Lets every part take no new work. A part that throws is logged and does not keep the others from it. */
  quiet(): Promise<void> {
    return this.#end(this.#quiets);
  }

  /**
   * Stops every part, each once. A part that throws is logged and does not keep the others from stopping.
   * @throws AggregateError in the end, when a part could not be quieted or stopped
   */
  async stop(): Promise<void> {
    await this.#end(this.#stops);
    if (this.#errors.length > 0) throw new AggregateError(this.#errors, 'parts of the process could not be stopped');
  }

  async #end(steps: { name: string; run: Step }[]): Promise<void> {
    for (let step = steps.pop(); step; step = steps.pop()) {
      try {
        await step.run();
      } catch (error) {
        this.#errors.push(error);
        this.log.error({ part: step.name, err: error }, 'a part of the process could not be stopped');
      }
    }
  }
}
