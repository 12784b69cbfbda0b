import type { Log } from './log.js';
import type { Stoppable } from './shutdown.js';

type Step = () => Promise<void> | void;

/** A running part of a process. A part with `start` must also have `quiet` or `stop`, else it does not compile. */
export type Part = { start?: Step } & ({ quiet: Step; stop?: Step } | { quiet?: Step; stop: Step });

/** The `stop` of a subscription, which ends when the connections of its process are closed. */
export const endsWithItsConnection: Step = () => {};

/**
 * The running parts of one process. Each part is registered where it is created. Parts start in the order of
 * registration and stop in the reverse order, so that a part stops before the parts that it uses.
 */
export class Lifecycle implements Stoppable {
  readonly #starts: Step[] = [];
  readonly #quiets: { name: string; run: Step }[] = [];
  readonly #stops: { name: string; run: Step }[] = [];
  readonly #errors: unknown[] = [];

  constructor(readonly log: Log) {}

  /** @param name the name of the part in the log, if it cannot be stopped */
  add(name: string, part: Part): void {
    if (part.start) this.#starts.push(() => part.start?.());
    if (part.quiet) this.#quiets.push({ name, run: () => part.quiet?.() });
    if (part.stop) this.#stops.push({ name, run: () => part.stop?.() });
  }

  /**
   * Starts the parts one after the other.
   * @throws the error of a part that cannot start; later parts are not started
   */
  async start(): Promise<void> {
    for (let start = this.#starts.shift(); start; start = this.#starts.shift()) await start();
  }

  /** Makes every part accept no new work. An error of one part is logged and does not affect the others. */
  quiet(): Promise<void> {
    return this.#end(this.#quiets);
  }

  /**
   * Stops every part once. An error of one part is logged, and the others are stopped too.
   * @throws AggregateError at the end, if a part could not be quieted or stopped
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
