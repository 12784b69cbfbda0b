/** Concurrent calls of one group. They take Redis a few milliseconds, after which other requests have their turn. */
const MAX_CALLS = 4;

/** A request that waits for a call. */
type Waiting<Request, Reply> = {
  request: Request;
  resolve: (reply: Reply) => void;
  reject: (error: unknown) => void;
};

type Group<Request, Reply> = {
  /** In order of arrival. */
  waiting: Waiting<Request, Reply>[];
  /** Calls that have not returned. */
  inFlight: number;
};

export type CallBatcherOptions<Request, Reply> = {
  /**
   * Makes one call for 1 to `maxBatch` requests of one group, in order of arrival. Returns one reply per request in the
   * same order. A reply that is an `Error` rejects its own request; a call that throws or rejects rejects all of its
   * requests.
   */
  send: (group: string, requests: readonly Request[]) => Promise<readonly (Reply | Error)[]>;
  /** Maximum number of requests per call, at least 1. */
  maxBatch: number;
  /** Maximum number of concurrent calls of one group, so that other groups get their turn; default: 4. */
  maxCalls?: number;
  /** Receives the number of requests of each call before it is made. */
  onBatch?: (size: number) => void;
};

/**
 * Combines the requests of one group into calls. While calls of a group are in flight, its requests wait; when all
 * calls have returned, the waiting requests are sent in up to `maxCalls` concurrent calls. A request of an idle group
 * is sent at the end of the current turn of the event loop, together with others of the same turn. There are no timers,
 * so a single request never waits for others.
 */
export class CallBatcher<Request, Reply> {
  /** Groups with waiting requests or calls in flight. */
  readonly #groups = new Map<string, Group<Request, Reply>>();

  constructor(readonly options: CallBatcherOptions<Request, Reply>) {
    if (!(options.maxBatch >= 1)) throw new RangeError(`maxBatch is ${options.maxBatch}, expected at least 1`);
  }

  /**
   * Sends a request together with others of its group.
   * @throws the error of its call, or the error that is its reply
   */
  run(name: string, request: Request): Promise<Reply> {
    return new Promise((resolve, reject) => {
      const waiting = { request, resolve, reject };
      const group = this.#groups.get(name);
      if (group) {
        group.waiting.push(waiting);
        return;
      }
      const started: Group<Request, Reply> = { waiting: [waiting], inFlight: 0 };
      this.#groups.set(name, started);
      setImmediate(() => this.#sendWaiting(name, started));
    });
  }

  /** Sends the waiting requests in at most `maxCalls` calls. Deletes a group without waiting requests. */
  #sendWaiting(name: string, group: Group<Request, Reply>): void {
    if (group.waiting.length === 0) {
      this.#groups.delete(name);
      return;
    }
    const { maxBatch, maxCalls = MAX_CALLS } = this.options;
    const most = maxBatch * maxCalls;
    const waiting = group.waiting.length > most ? group.waiting.splice(0, most) : group.waiting;
    if (waiting === group.waiting) group.waiting = [];
    // Counts all calls before the first one, so that an early return does not start the next round.
    group.inFlight = Math.ceil(waiting.length / maxBatch);
    for (let start = 0; start < waiting.length; start += maxBatch) {
      const batch = waiting.length <= maxBatch ? waiting : waiting.slice(start, start + maxBatch);
      this.#call(name, batch).finally(() => {
        group.inFlight -= 1;
        if (group.inFlight === 0) this.#sendWaiting(name, group);
      });
    }
  }

  /** Makes one call and settles its requests. Never rejects. */
  async #call(name: string, batch: readonly Waiting<Request, Reply>[]): Promise<void> {
    try {
      this.options.onBatch?.(batch.length);
      const replies = await this.options.send(
        name,
        batch.map(({ request }) => request),
      );
      if (replies.length !== batch.length) {
        throw new Error(`a call for ${batch.length} requests returned ${replies.length} replies`);
      }
      for (const [i, { resolve, reject }] of batch.entries()) {
        const reply = replies[i] as Reply | Error;
        if (reply instanceof Error) reject(reply);
        else resolve(reply);
      }
    } catch (error) {
      for (const { reject } of batch) reject(error);
    }
  }
}
