import { EngineUnavailable } from '../errors/faults.js';

/** Calls may take up to this much longer than their limit: how often the oldest ones are looked at. */
const LOOK_EVERY_MS = 50;
/** A look that comes later than this does so because this process was busy; what is beyond it does not count as waiting. */
const COUNTED_PER_LOOK_MS = 4 * LOOK_EVERY_MS;

/** A call that is watched. Whoever made it says when it is settled. */
export type Watched = { until: number; calledAt: number; settled: boolean; giveUp: (error: EngineUnavailable) => void };

/**
 * Gives up on calls that take longer than a limit. All have the same limit, so the oldest is the first to run out, and one
 * timer watches all of them: a timer for each call would cost more than sending it.
 *
 * Only time in which this process could have heard an answer counts. After a burst that kept it busy for a second the answers
 * lie in its socket unread; taking that for a dead engine would refuse everybody, and shut out those whom it has served.
 */
export class Deadline {
  #waiting: Watched[] = [];
  #timer: NodeJS.Timeout | null = null;
  /** Goes on by what counts, while anybody waits. */
  #now = 0;
  #lookedAt = 0;

  constructor(
    readonly limitMs: number,
    /** A call ran out of time; the others behind it hardly fare better. */
    readonly onLate: () => void,
  ) {}

  /** @throws EngineUnavailable when it takes too long; what the call did is then unknown */
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

  /** For a call that begins now; as `limit`, where a promise of its own is one too many. @param giveUp called when it takes too long */
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

  /** Of the time since the last look, what counts. */
  #countedMs(): number {
    return Math.min(performance.now() - this.#lookedAt, COUNTED_PER_LOOK_MS);
  }

  #look(): void {
    const busyMs = performance.now() - this.#lookedAt;
    this.#now += this.#countedMs();
    this.#lookedAt = performance.now();
    const now = this.#now;
    // A look that comes in time has seen all that had arrived, so then the clock on the wall counts as well.
    const inTime = busyMs < COUNTED_PER_LOOK_MS;
    const calledBefore = inTime ? performance.now() - this.limitMs - COUNTED_PER_LOOK_MS : Number.NEGATIVE_INFINITY;
    const isLate = ({ until, calledAt }: Watched) => until <= now || calledAt < calledBefore;
    const open = this.#waiting.filter(({ settled }) => !settled);
    const late = open.filter(isLate);
    this.#waiting = open.filter((waiting) => !isLate(waiting));
    for (const { giveUp } of late) giveUp(new EngineUnavailable('redis', `no answer within ${this.limitMs} ms`));
    if (late.length > 0) this.onLate();
    if (this.#waiting.length === 0 && this.#timer) {
      clearInterval(this.#timer);
      this.#timer = null;
    }
  }
}
