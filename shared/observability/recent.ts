/**
 * Caches a value that is costly to compute: it is computed at most once per `maxAgeMs`, whatever the number of callers.
 * Callers during a computation share its result; a failure is not cached.
 */
export class Recent<Value> {
  #value: Promise<Value> | null = null;
  #expiresAt = 0;

  constructor(
    readonly compute: () => Promise<Value>,
    readonly maxAgeMs: number,
    /** Monotonic, in milliseconds. */
    readonly now: () => number = () => performance.now(),
  ) {}

  get(): Promise<Value> {
    if (this.#value && this.now() < this.#expiresAt) return this.#value;
    const computing = this.compute();
    this.#value = computing;
    // Callers share this computation until it is finished.
    this.#expiresAt = Number.POSITIVE_INFINITY;
    computing.then(
      () => {
        this.#expiresAt = this.now() + this.maxAgeMs;
      },
      () => {
        this.#value = null;
      },
    );
    return computing;
  }
}
