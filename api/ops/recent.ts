/**
 * A value that is costly to compute and that any caller may ask for: computed at most once per `maxAgeMs`, whatever the number
 * of callers. Callers during a computation share its result; a failure is not kept.
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
    // Until it is there, everybody waits for this one.
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
