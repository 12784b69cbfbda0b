/** Served requests of a line that may stay in its array. */
const SERVED_KEPT = 1_024;

/** Starts a request. `done` must be called when it has its response; null = it does not count as in service. */
type Serve = (done: (() => void) | null) => void;

/** Requests of one network that wait; those before `first` are served, and null. */
class Line {
  #waiting: (Serve | null)[] = [];
  #first = 0;

  get size(): number {
    return this.#waiting.length - this.#first;
  }

  add(serve: Serve): void {
    this.#waiting.push(serve);
  }

  next(): Next {
    const serve = this.#waiting[this.#first] as Serve;
    this.#waiting[this.#first] = null;
    this.#first += 1;
    if (this.#first === SERVED_KEPT) {
      this.#waiting.splice(0, SERVED_KEPT);
      this.#first = 0;
    }
    return { name: '', serve };
  }
}

/** The request that is served next, and the name of its part. */
type Next = { name: string; serve: Serve };

type Named<Part> = { name: string; part: Part };

/** Lines by name, or rounds of them. `next` takes one request of each in turn. */
class Round<Part extends { readonly size: number; next(): Next | null }> {
  /** Those that have requests. */
  readonly #parts: Named<Part>[] = [];
  readonly #byName = new Map<string, Named<Part>>();
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
    return this.#byName.get(name)?.part.size ?? 0;
  }

  add(name: string, to: (part: Part) => void): void {
    let named = this.#byName.get(name);
    if (named === undefined) {
      named = { name, part: this.begin() };
      this.#byName.set(name, named);
      this.#parts.push(named);
    }
    to(named.part);
    this.#size += 1;
  }

  /** @returns null when no part may be served */
  next(mayServe: (name: string) => boolean = always): Next | null {
    for (let looked = 0; looked < this.#parts.length; looked += 1) {
      if (this.#at >= this.#parts.length) this.#at = 0;
      const named = this.#parts[this.#at] as Named<Part>;
      if (mayServe(named.name)) return this.#nextOf(named);
      this.#at += 1;
    }
    return null;
  }

  #nextOf({ name, part }: Named<Part>): Next | null {
    const next = part.next();
    this.#size -= 1;
    if (part.size > 0) {
      this.#at += 1;
    } else {
      this.#parts.splice(this.#at, 1);
      this.#byName.delete(name);
    }
    return next && { name, serve: next.serve };
  }
}

const always = () => true;

/**
 * Requests in service of one network that have waited. One that takes longer than `IN_SERVICE_MS` does not count any
 * more: otherwise a client with slow bodies would stop all others behind its address.
 */
class InService {
  readonly #begun: { at: number; isDone: boolean }[] = [];
  #count = 0;

  /** @param now monotonic, ms */
  count(now = performance.now()): number {
    for (let [first] = this.#begun; first && (first.isDone || now - first.at > IN_SERVICE_MS); [first] = this.#begun) {
      this.#begun.shift();
      if (!first.isDone) this.#count -= 1;
      first.isDone = true;
    }
    return this.#count;
  }

  /** @returns the function that must be called when the request is done */
  begin(now: number, then: () => void): () => void {
    const one = { at: now, isDone: false };
    this.#begun.push(one);
    this.#count += 1;
    return () => {
      if (!one.isDone) this.#count -= 1;
      one.isDone = true;
      then();
    };
  }
}

export type TurnLimits = {
  /** Requests that start in one turn of the event loop. */
  requests: number;
  /** A turn starts no further request after this time. */
  ms: number;
  /** The same for a turn after a connection was accepted. */
  accepting: { requests: number; ms: number };
  /** The most requests of one network that are in service while another network has requests too. */
  inService: number;
};

/** For how long a network that had a request that waited counts as one that has requests. */
const PRESENT_MS = 1_000;
/**
 * Longer than a decision takes in Redis. A network whose requests wait for Postgres still begins 32 of them in this
 * time, 1,000 a second. So a request now and then from elsewhere slows no gateway and no carrier below that.
 */
const IN_SERVICE_MS = 32;

/**
 * Limits how many requests start in one turn of the event loop; the others wait for the next turns. Without it,
 * thousands of requests that arrive in one turn would all start before the loop sends one command to Redis or reads one
 * reply. Every request would wait for the last one, and idle connections would be taken for dead.
 *
 * The turns go round the networks that wait, so that a flood of one network delays its own requests only. Alone, a
 * network gets all of a turn. Networks of IPv6 share the turns of their /48, which one customer may have as a whole.
 *
 * Requests in service wait for each other as well, in Redis. So each network has few of them in service while several
 * networks have requests: a flood would delay the others by all that it has begun.
 *
 * Node accepts one connection in a turn (libuv, `uv__server_io`). So turns are short while there are connections to
 * accept; otherwise a few hundred of one client would keep new shoppers out for seconds.
 */
export class RequestScheduler {
  #served = 0;
  #scheduled = false;
  /** Of wide networks, and in each of its networks. */
  readonly #waiting = new Round(() => new Round(() => new Line()));
  /** By wide network. */
  readonly #inService = new Map<string, InService>();
  /** Whether each network that waits has all the requests in service that it may have. */
  #isPaused = false;
  /** Ends the last pause. */
  #timer: NodeJS.Timeout | null = null;
  #hasAccepted = false;
  /** The wide network of the last request that waited, and when another one had a request that waited. */
  #last = '';
  #severalAt = Number.NEGATIVE_INFINITY;
  #isShared = false;
  /** Whether more requests are there than the last turn could serve, or this one. */
  #isCongested = false;
  /** The limits of this turn. */
  #limits: TurnLimits['accepting'];

  /**
   * @param wideOf the wide network of a network
   * @param readMore called in each turn, so that requests for the next ones are read; whether it needs another turn
   */
  constructor(
    readonly perTurn: TurnLimits,
    readonly wideOf: (network: string) => string,
    readonly readMore: () => boolean = () => false,
  ) {
    this.#limits = perTurn;
  }

  /** Must be called when a connection was accepted: there may be more. */
  accepted(): void {
    this.#hasAccepted = true;
  }

  /** Whether several networks have requests: then each request waits for its turn. */
  get isShared(): boolean {
    return this.#isShared;
  }

  /** Number of requests that wait for a turn. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /** Number of requests of a wide network that wait for a turn. */
  waitingOf(wide: string): number {
    return this.#waiting.sizeOf(wide);
  }

  /** Whether a network has its share of `places`, or more, with all others of its /48. */
  hasShareOf(places: number, network: string): boolean {
    const own = this.#waiting.sizeOf(this.wideOf(network));
    return own > 0 && own >= places / this.#waiting.parts;
  }

  /** Serves the request now or in a later turn. @param networkOf called only if the request has to wait */
  take(serve: Serve, networkOf: () => string): void {
    this.#schedule();
    if (this.#served >= this.#limits.requests) this.#isCongested = true;
    if (this.#isShared || this.#isCongested || this.#waiting.size > 0) {
      this.#wait(serve, networkOf());
      return;
    }
    this.#served += 1;
    serve(null);
  }

  readonly #schedule = (): void => {
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(this.#next);
  };

  #wait(serve: Serve, network: string): void {
    const wide = this.wideOf(network);
    if (wide !== this.#last) {
      if (this.#last !== '' && this.#isCongested) this.#severalAt = performance.now();
      this.#last = wide;
    }
    this.#waiting.add(wide, (networks) => networks.add(network, (line) => line.add(serve)));
  }

  /** Whether a network may have another request in service. */
  #mayServe(name: string, now: number): boolean {
    return (this.#inService.get(name)?.count(now) ?? 0) < this.perTurn.inService;
  }

  #begin({ name, serve }: Next, now: number): void {
    const inService = this.#inService.get(name) ?? new InService();
    this.#inService.set(name, inService);
    serve(
      inService.begin(now, () => {
        // The name may have a new count meanwhile, if this request took longer.
        if (inService.count() === 0 && this.#inService.get(name) === inService) this.#inService.delete(name);
        this.#resume();
      }),
    );
  }

  readonly #resume = (): void => {
    if (!this.#isPaused) return;
    this.#isPaused = false;
    this.#schedule();
  };

  #pause(): void {
    this.#isPaused = true;
    // One timer for all pauses, because there are many a second.
    this.#timer = this.#timer?.refresh() ?? setTimeout(this.#resume, IN_SERVICE_MS).unref();
  }

  readonly #next = (): void => {
    // After a single request, this call is the only cost.
    this.#scheduled = false;
    this.#served = 0;
    this.#limits = this.#hasAccepted ? this.perTurn.accepting : this.perTurn;
    this.#hasAccepted = false;
    this.#isCongested = this.readMore();
    const now = performance.now();
    this.#isShared = now - this.#severalAt < PRESENT_MS;
    const endsAt = now + this.#limits.ms;
    if (this.#waiting.size === 0) {
      if (this.#isCongested) this.#schedule();
      return;
    }
    do {
      const next = this.#isShared ? this.#waiting.next((name) => this.#mayServe(name, now)) : this.#waiting.next();
      if (next === null) {
        this.#isCongested = true;
        this.#pause();
        return;
      }
      this.#served += 1;
      if (this.#isShared) this.#begin(next, now);
      else next.serve(null);
    } while (this.#waiting.size > 0 && this.#served < this.#limits.requests && performance.now() < endsAt);
    this.#isCongested ||= this.#waiting.size > 0;
    if (this.#isCongested) this.#schedule();
  };
}
