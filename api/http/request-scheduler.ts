/** Served requests of a line that may stay in its array. */
const SERVED_KEPT = 1_024;

type Serve = () => void;

/** Requests of one network that wait; those before `first` are served. */
class Line {
  #waiting: Serve[] = [];
  #first = 0;

  get size(): number {
    return this.#waiting.length - this.#first;
  }

  add(serve: Serve): void {
    this.#waiting.push(serve);
  }

  next(): Serve {
    const serve = this.#waiting[this.#first] as Serve;
    this.#first += 1;
    if (this.#first === SERVED_KEPT) {
      this.#waiting.splice(0, SERVED_KEPT);
      this.#first = 0;
    }
    return serve;
  }
}

/** Lines by name, or rounds of them. `next` takes one request of each in turn. */
class Round<Part extends { readonly size: number; next(): Serve }> {
  readonly #parts: { name: string; part: Part }[] = [];
  readonly #byName = new Map<string, Part>();
  /** The part whose request is served next. */
  #at = 0;
  #size = 0;

  constructor(readonly begin: () => Part) {}

  /** Number of requests. */
  get size(): number {
    return this.#size;
  }

  /** Number of parts that have requests. */
  get parts(): number {
    return this.#parts.length;
  }

  sizeOf(name: string): number {
    return this.#byName.get(name)?.size ?? 0;
  }

  add(name: string, to: (part: Part) => void): void {
    let part = this.#byName.get(name);
    if (part === undefined) {
      part = this.begin();
      this.#byName.set(name, part);
      this.#parts.push({ name, part });
    }
    to(part);
    this.#size += 1;
  }

  next(): Serve {
    if (this.#at >= this.#parts.length) this.#at = 0;
    const { name, part } = this.#parts[this.#at] as { name: string; part: Part };
    const serve = part.next();
    this.#size -= 1;
    if (part.size > 0) {
      this.#at += 1;
    } else {
      this.#parts.splice(this.#at, 1);
      this.#byName.delete(name);
    }
    return serve;
  }
}

export type TurnLimits = {
  /** Requests that start in one turn of the event loop. */
  requests: number;
  /** A turn starts no further request after this time. */
  ms: number;
  /** The same for a turn after a connection was accepted. */
  accepting: { requests: number; ms: number };
  /** The most that the waiting requests of one network get of a turn while another network has requests too. */
  shared: { requests: number; ms: number };
};

/** For how long a network that had a request that waited counts as one that has requests. */
const PRESENT_MS = 1_000;

/**
 * Limits how many requests start in one turn of the event loop; the others wait for the next turns. Without it,
 * thousands of requests that arrive in one turn would all start before the loop sends one command to Redis or reads one
 * reply. Every request would wait for the last one, and idle connections would be taken for dead.
 *
 * The turns go round the networks that wait, so that a flood of one network delays its own requests only. Alone, a
 * network gets all of a turn. Networks of IPv6 share the turns of their /48, which one customer may have as a whole.
 *
 * A request that arrives waits until the turn ends. So turns are short while several networks have had requests that
 * waited: a flood of one network would delay the others by a long turn each time.
 *
 * Node accepts one connection in a turn (libuv, `uv__server_io`). So turns are short while there are connections to
 * accept; otherwise a few hundred of one client would keep new shoppers out for seconds.
 */
export class RequestScheduler {
  #served = 0;
  #scheduled = false;
  /** Of wide networks, and in each of its networks. */
  readonly #waiting = new Round(() => new Round(() => new Line()));
  #hasAccepted = false;
  /** The wide network of the last request that waited, and when another one had a request that waited. */
  #last = '';
  #severalAt = Number.NEGATIVE_INFINITY;
  /** The limits of this turn. */
  #limits: TurnLimits['accepting'];

  /** @param wideOf the wide network of a network */
  constructor(
    readonly perTurn: TurnLimits,
    readonly wideOf: (network: string) => string,
  ) {
    this.#limits = perTurn;
  }

  /** Must be called when a connection was accepted: there may be more. */
  accepted(): void {
    this.#hasAccepted = true;
  }

  /** Number of requests that wait for a turn. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /** Whether a network has its share of `places`, or more, with all others of its /48. */
  hasShareOf(places: number, network: string): boolean {
    const own = this.#waiting.sizeOf(this.wideOf(network));
    return own > 0 && own >= places / this.#waiting.parts;
  }

  /** Serves the request now or in a later turn. @param networkOf called only if the request has to wait */
  take(serve: Serve, networkOf: () => string): void {
    if (!this.#scheduled) {
      this.#scheduled = true;
      setImmediate(this.#next);
    }
    if (this.#served >= this.#limits.requests || this.#waiting.size > 0) {
      this.#wait(serve, networkOf());
      return;
    }
    this.#served += 1;
    serve();
  }

  #wait(serve: Serve, network: string): void {
    const wide = this.wideOf(network);
    if (wide !== this.#last) {
      if (this.#last !== '') this.#severalAt = performance.now();
      this.#last = wide;
    }
    this.#waiting.add(wide, (networks) => networks.add(network, (line) => line.add(serve)));
  }

  #limitsAt(now: number): TurnLimits['accepting'] {
    if (this.#hasAccepted) return this.perTurn.accepting;
    if (now - this.#severalAt >= PRESENT_MS) return this.perTurn;
    const { requests, ms } = this.perTurn.shared;
    const networks = Math.max(1, this.#waiting.parts);
    return {
      requests: Math.min(this.perTurn.requests, requests * networks),
      ms: Math.min(this.perTurn.ms, ms * networks),
    };
  }

  readonly #next = (): void => {
    // After a single request, this call is the only cost.
    this.#scheduled = this.#waiting.size > 0;
    this.#served = 0;
    if (!this.#scheduled) {
      this.#limits = this.#hasAccepted ? this.perTurn.accepting : this.perTurn;
      this.#hasAccepted = false;
      return;
    }
    const now = performance.now();
    this.#limits = this.#limitsAt(now);
    this.#hasAccepted = false;
    setImmediate(this.#next);
    const { requests, ms } = this.#limits;
    const endsAt = now + ms;
    do {
      this.#served += 1;
      this.#waiting.next()();
    } while (this.#waiting.size > 0 && this.#served < requests && performance.now() < endsAt);
  };
}
