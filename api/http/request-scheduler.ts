/** Requests of one network that wait; those before `first` are served. */
type Line = { network: string; waiting: (() => void)[]; first: number };

/** Served requests of a line that may stay in its array. */
const SERVED_KEPT = 1_024;

export type TurnLimits = {
  /** Requests that start in one turn of the event loop. */
  requests: number;
  /** A turn starts no further request after this time. */
  ms: number;
  /** The same for a turn after a connection was accepted. */
  accepting: { requests: number; ms: number };
};

/**
 * Limits how many requests start in one turn of the event loop; the others wait for the next turns. Without it,
 * thousands of requests that arrive in one turn would all start before the loop sends one command to Redis or reads one
 * reply. Every request would wait for the last one, and idle connections would be taken for dead.
 *
 * The turns go round the networks that wait, so that a flood of one network delays its own requests only. Alone, a
 * network gets all of a turn.
 *
 * Node accepts one connection in a turn (libuv, `uv__server_io`). So turns are short while there are connections to
 * accept; otherwise a few hundred of one client would keep new shoppers out for seconds.
 */
export class RequestScheduler {
  #served = 0;
  #scheduled = false;
  #waiting = 0;
  readonly #lines: Line[] = [];
  readonly #byNetwork = new Map<string, Line>();
  /** The line whose request is served next. */
  #at = 0;
  #hasAccepted = false;
  /** The limits of this turn. */
  #limits: TurnLimits['accepting'];

  constructor(readonly perTurn: TurnLimits) {
    this.#limits = perTurn;
  }

  /** Must be called when a connection was accepted: there may be more. */
  accepted(): void {
    this.#hasAccepted = true;
  }

  /** Number of requests that wait for a turn. */
  get waiting(): number {
    return this.#waiting;
  }

  /** Whether a network has its share of `places`, or more. */
  hasShareOf(places: number, network: string): boolean {
    const line = this.#byNetwork.get(network);
    return line !== undefined && line.waiting.length - line.first >= places / this.#lines.length;
  }

  /** Serves the request now or in a later turn. @param networkOf called only if the request has to wait */
  take(serve: () => void, networkOf: () => string): void {
    if (!this.#scheduled) {
      this.#scheduled = true;
      setImmediate(this.#next);
    }
    if (this.#served >= this.#limits.requests || this.#waiting > 0) {
      this.#wait(serve, networkOf());
      return;
    }
    this.#served += 1;
    serve();
  }

  #wait(serve: () => void, network: string): void {
    let line = this.#byNetwork.get(network);
    if (line === undefined) {
      line = { network, waiting: [], first: 0 };
      this.#byNetwork.set(network, line);
      this.#lines.push(line);
    }
    line.waiting.push(serve);
    this.#waiting += 1;
  }

  readonly #next = (): void => {
    // After a single request, this call is the only cost.
    this.#scheduled = this.#waiting > 0;
    this.#served = 0;
    this.#limits = this.#hasAccepted ? this.perTurn.accepting : this.perTurn;
    this.#hasAccepted = false;
    if (!this.#scheduled) return;
    setImmediate(this.#next);
    const { requests, ms } = this.#limits;
    const endsAt = performance.now() + ms;
    do {
      this.#served += 1;
      this.#nextInTurn()();
    } while (this.#waiting > 0 && this.#served < requests && performance.now() < endsAt);
  };

  #nextInTurn(): () => void {
    if (this.#at >= this.#lines.length) this.#at = 0;
    const line = this.#lines[this.#at] as Line;
    const serve = line.waiting[line.first] as () => void;
    line.first += 1;
    this.#waiting -= 1;
    if (line.first === line.waiting.length) {
      this.#lines.splice(this.#at, 1);
      this.#byNetwork.delete(line.network);
    } else {
      if (line.first === SERVED_KEPT) {
        line.waiting.splice(0, SERVED_KEPT);
        line.first = 0;
      }
      this.#at += 1;
    }
    return serve;
  }
}
