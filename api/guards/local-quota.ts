/**
 * Counts calls per window in this process alone, without a promise: for what must be cheap even when it is refused, and where
 * as many processes as there are may each allow as much. Bounded: when it is full, whoever came first is forgotten.
 */
export class LocalQuota {
  readonly #counts = new Map<string, { count: number; endsAtMs: number }>();

  constructor(
    readonly limit: number,
    readonly windowMs: number,
    readonly capacity: number,
    readonly nowMs: () => number = () => performance.now(),
  ) {}

  /** Counts one. @returns how long the caller must wait; 0 = he is within the limit */
  take(caller: string): number {
    const { count, endsAtMs } = this.#counted(caller);
    return count > this.limit ? endsAtMs - this.nowMs() : 0;
  }

  /** Counts one. @returns how many that makes in this window */
  count(caller: string): number {
    return this.#counted(caller).count;
  }

  /** Takes one back that was counted in this window, for a call that turned out to be free. */
  uncount(caller: string): void {
    const entry = this.#counts.get(caller);
    if (!entry) return;
    entry.count -= 1;
    // What counts nothing takes up no room.
    if (entry.count <= 0) this.#counts.delete(caller);
  }

  /** How many calls are counted in this window. Counts nothing. */
  countOf(caller: string): number {
    const entry = this.#counts.get(caller);
    return entry && entry.endsAtMs > this.nowMs() ? entry.count : 0;
  }

  #counted(caller: string): { count: number; endsAtMs: number } {
    const now = this.nowMs();
    let entry = this.#counts.get(caller);
    if (!entry || entry.endsAtMs <= now) {
      this.#counts.delete(caller);
      if (this.#counts.size >= this.capacity) this.#counts.delete(this.#counts.keys().next().value as string);
      entry = { count: 0, endsAtMs: now + this.windowMs };
      this.#counts.set(caller, entry);
    }
    entry.count += 1;
    return entry;
  }

  /** How long somebody must wait who has used up his calls; 0 = he may come. Counts nothing. */
  waitOf(caller: string): number {
    const entry = this.#counts.get(caller);
    const now = this.nowMs();
    return entry && entry.count >= this.limit && entry.endsAtMs > now ? entry.endsAtMs - now : 0;
  }
}
