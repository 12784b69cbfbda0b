import { LRUCache } from 'lru-cache';

type Window = { count: number; endsAtMs: number };

/**
 * Counts calls per window in this process alone, without a promise: for what must be cheap even when it is refused, and where
 * as many processes as there are may each allow as much. Bounded: when it is full, the caller whose window began first is
 * forgotten.
 */
export class LocalQuota {
  /** Used in the order of insertion. A `Map` that is full costs 30 µs a call: its first key lies behind all deleted ones. */
  readonly #windows: LRUCache<string, Window>;

  constructor(
    readonly limit: number,
    readonly windowMs: number,
    readonly capacity: number,
    readonly nowMs: () => number = () => performance.now(),
  ) {
    this.#windows = new LRUCache({ max: capacity });
  }

  /** Counts one. @returns how long the caller must wait, ms; 0 = within the limit */
  take(caller: string): number {
    const now = this.nowMs();
    const { count, endsAtMs } = this.#counted(caller, now);
    return count > this.limit ? endsAtMs - now : 0;
  }

  /** Counts one. @returns how many that makes in this window */
  count(caller: string): number {
    return this.#counted(caller, this.nowMs()).count;
  }

  /** Takes one back that was counted in this window, for a call that turned out to be free. */
  uncount(caller: string): void {
    const window = this.#windows.peek(caller);
    if (!window) return;
    window.count -= 1;
    // What counts nothing takes up no room.
    if (window.count <= 0) this.#windows.delete(caller);
  }

  /** How many calls are counted in this window. Counts nothing. */
  countOf(caller: string): number {
    const window = this.#windows.peek(caller);
    return window && window.endsAtMs > this.nowMs() ? window.count : 0;
  }

  /** How long a caller must wait who has used up their calls, ms; 0 = they may call. Counts nothing. */
  waitOf(caller: string): number {
    const window = this.#windows.peek(caller);
    return window && window.count >= this.limit ? Math.max(0, window.endsAtMs - this.nowMs()) : 0;
  }

  #counted(caller: string, now: number): Window {
    let window = this.#windows.peek(caller);
    if (!window || window.endsAtMs <= now) {
      window = { count: 0, endsAtMs: now + this.windowMs };
      this.#windows.set(caller, window);
    }
    window.count += 1;
    return window;
  }
}
