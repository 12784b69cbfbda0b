/**
 * Limits how many requests start in one turn of the event loop; the others wait for the next turns, in order of
 * arrival. Without it, thousands of requests that arrive in one turn would all start before the loop sends one command
 * to Redis or reads one reply. Every request would wait for the last one, and idle connections would be taken for dead.
 */
export class RequestScheduler {
  #served = 0;
  #scheduled = false;
  readonly #waiting: (() => void)[] = [];

  constructor(readonly perTurn: number) {}

  /** Number of requests that wait for a turn. */
  get waiting(): number {
    return this.#waiting.length;
  }

  /** Serves the request now or in a later turn. */
  take(serve: () => void): void {
    if (!this.#scheduled) {
      this.#scheduled = true;
      setImmediate(this.#next);
    }
    if (this.#served >= this.perTurn) {
      this.#waiting.push(serve);
      return;
    }
    this.#served += 1;
    serve();
  }

  readonly #next = (): void => {
    // After a single request, this call is the only cost.
    const turn = this.#waiting.splice(0, this.perTurn);
    this.#served = turn.length;
    this.#scheduled = turn.length > 0;
    if (this.#scheduled) setImmediate(this.#next);
    for (const serve of turn) serve();
  };
}
