/**
 * Serves so many requests in one turn of the event loop, in the order in which they came; the others wait for the next turns. When
 * thousands arrive within one turn, the loop would otherwise begin all of them before it sent a single command to Redis or read a single
 * answer: everybody waited for the last one, and a connection on which nothing was read for so long was taken for a dead one.
 */
export class RequestScheduler {
  #served = 0;
  #scheduled = false;
  readonly #waiting: (() => void)[] = [];

  constructor(readonly perTurn: number) {}

  /** How many wait for a turn. */
  get waiting(): number {
    return this.#waiting.length;
  }

  /** Serves now, or when it is its turn. */
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
    // One that came by itself costs no more than this call.
    const turn = this.#waiting.splice(0, this.perTurn);
    this.#served = turn.length;
    this.#scheduled = turn.length > 0;
    if (this.#scheduled) setImmediate(this.#next);
    for (const serve of turn) serve();
  };
}
