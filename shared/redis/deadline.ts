import { EngineUnavailable } from '../errors/faults.js';

/** Interval of the checks. Calls may take this much longer than their limit. */
const LOOK_EVERY_MS = 50;
/** A check that is later than this was delayed by a busy process; the excess does not count as waiting time. */
const COUNTED_PER_LOOK_MS = 4 * LOOK_EVERY_MS;

/** A watched call. The caller sets `settled` when the call has settled. */
export type Watched = { until: number; calledAt: number; settled: boolean; giveUp: (error: EngineUnavailable) => void };

/**
 * Gives up on calls that exceed a time limit. All calls have the same limit, so one timer checks all of them; a timer
 * per call would cost more than sending it.
 *
 * Only time in which this process could have read a reply counts. After a burst that blocked it for a second, the
 * replies are still unread in its socket. Treating that as an outage would reject all callers, including those with a
 * reply.
 */
export class Deadline {
  #waiting: Watched[] = [];
  #timer: NodeJS.Timeout | null = null;
  /** Clock of the counted time. It advances while calls wait. */
  #now = 0;
  #lookedAt = 0;

  constructor(
    readonly limitMs: number,
    /** Called when a call has timed out, because later calls will probably time out as well. */
    readonly onLate: () => void,
  ) {}

  /** Limits a call. @throws EngineUnavailable if it takes too long; the effect of the call is then unknown */
  limit<Value>(call: Promise<Value>): Promise<Value> {
    return new Promise((resolve, reject) => {
      const watched = this.watch(reject);
      call.then(
        (value) => {
          watched.settled = true;
          resolve(value);
        },
        (error: unknown) => {
          watched.settled = true;
          reject(error);
        },
      );
    });
  }

  /**
   * Watches a call that begins now, as `limit` but without another promise.
   * @param giveUp called if it takes too long
   */
  watch(giveUp: Watched['giveUp']): Watched {
    const calledAt = performance.now();
    if (!this.#timer) {
      this.#lookedAt = calledAt;
      this.#timer = setInterval(() => this.#look(), LOOK_EVERY_MS).unref();
    }
    const until = this.#now + Math.min(calledAt - this.#lookedAt, COUNTED_PER_LOOK_MS) + this.limitMs;
    const watched = { until, calledAt, settled: false, giveUp };
    this.#waiting.push(watched);
    return watched;
  }

  /** Returns the counted part of the time since the last check. */
  #countedMs(): number {
    return Math.min(performance.now() - this.#lookedAt, COUNTED_PER_LOOK_MS);
  }

  #look(): void {
    const busyMs = performance.now() - this.#lookedAt;
    this.#now += this.#countedMs();
    this.#lookedAt = performance.now();
    const now = this.#now;
    // A punctual check follows after all replies that had arrived were read, so that real time counts as well.
    const inTime = busyMs < COUNTED_PER_LOOK_MS;
    const calledBefore = inTime ? performance.now() - this.limitMs - COUNTED_PER_LOOK_MS : Number.NEGATIVE_INFINITY;
    const isLate = ({ until, calledAt }: Watched) => until <= now || calledAt < calledBefore;
    const open = this.#waiting.filter(({ settled }) => !settled);
    const late = open.filter(isLate);
    this.#waiting = open.filter((waiting) => !isLate(waiting));
    for (const { giveUp } of late) giveUp(new EngineUnavailable('redis', `no reply within ${this.limitMs} ms`));
    if (late.length > 0) this.onLate();
    if (this.#waiting.length === 0 && this.#timer) {
      clearInterval(this.#timer);
      this.#timer = null;
    }
  }
}
