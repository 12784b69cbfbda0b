import { EngineUnavailable } from '../errors/faults.js';

/** Calls may take up to this much longer than their limit: how often the oldest ones are looked at. */
const LOOK_EVERY_MS = 50;

type Waiting = { until: number; settled: boolean; giveUp: () => void };

/**
 * Gives up on calls that take longer than a limit. All have the same limit, so the oldest is the first to run out, and one
 * timer watches all of them: a timer for each call would cost more than sending it.
 */
export class Deadline {
  #waiting: Waiting[] = [];
  #timer: NodeJS.Timeout | null = null;

  constructor(
    readonly limitMs: number,
    /** A call ran out of time; the others behind it hardly fare better. */
    readonly onLate: () => void,
  ) {}

  /** @throws EngineUnavailable when it takes too long; what the call did is then unknown */
  limit<Value>(call: Promise<Value>): Promise<Value> {
    return new Promise((resolve, reject) => {
      const waiting: Waiting = {
        until: performance.now() + this.limitMs,
        settled: false,
        giveUp: () => reject(new EngineUnavailable('redis', `no answer within ${this.limitMs} ms`)),
      };
      call.then(
        (value) => {
          waiting.settled = true;
          resolve(value);
        },
        (error: unknown) => {
          waiting.settled = true;
          reject(error);
        },
      );
      this.#waiting.push(waiting);
      this.#timer ??= setInterval(() => this.#look(), LOOK_EVERY_MS).unref();
    });
  }

  #look(): void {
    const now = performance.now();
    const open = this.#waiting.filter(({ settled }) => !settled);
    const late = open.filter(({ until }) => until <= now);
    this.#waiting = open.filter(({ until }) => until > now);
    for (const { giveUp } of late) giveUp();
    if (late.length > 0) this.onLate();
    if (this.#waiting.length === 0 && this.#timer) {
      clearInterval(this.#timer);
      this.#timer = null;
    }
  }
}
