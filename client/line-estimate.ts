import type { Standing } from './types.js';

/** Places so near to the head are requested each time, because they change at any moment. */
const NEAR_PLACES = 10;
/** How long a position may be an estimate before the exact one is requested again. */
const EXACT_EVERY_MS = 60_000;

/** The public data of a line (GET /flash-sale/line). */
export type LineProgress = { served: number; waiting: number; must_be_seen: boolean };

/**
 * The position of a place by the public count of served users, between two exact positions. It is behind the truth by
 * the users ahead who have left meanwhile, and by those served before the first data. It is ahead of it only by users
 * who were served out of their order, behind a group.
 */
export class LineEstimate {
  #position = 0;
  #waitSeconds: number | null = null;
  #exactAt = Number.NEGATIVE_INFINITY;
  /** Count of served users of the first data after the exact position. */
  #servedBefore: number | null = null;
  /** The server lacks the data, or the campaign needs to see its users. */
  #off = false;

  constructor(readonly now: () => number = () => performance.now()) {}

  /** Takes an exact standing. */
  exact({ position, estimated_wait_seconds }: Partial<Standing>): void {
    this.#position = position ?? 0;
    this.#waitSeconds = estimated_wait_seconds ?? null;
    this.#exactAt = this.now();
    this.#servedBefore = null;
  }

  /** The exact position is still the same, as the server has said. */
  unchanged(): void {
    this.#exactAt = this.now();
    this.#servedBefore = null;
  }

  /** Whether the public data are enough now. */
  get suffices(): boolean {
    return !this.#off && this.#position > NEAR_PLACES && this.now() - this.#exactAt < EXACT_EVERY_MS;
  }

  /** The exact position has to be requested next. */
  expire(): void {
    this.#exactAt = Number.NEGATIVE_INFINITY;
  }

  /** The data cannot be had: exact positions are requested from now on. */
  disable(): void {
    this.#off = true;
  }

  /** Returns the estimate; null = the exact position has to be requested. */
  at({
    served,
    waiting,
    must_be_seen,
  }: LineProgress): Pick<Standing, 'position' | 'queue_size' | 'estimated_wait_seconds'> | null {
    if (must_be_seen) this.disable();
    this.#servedBefore ??= served;
    const position = this.#position - (served - this.#servedBefore);
    // An empty line has ended, or is a new one.
    if (must_be_seen || waiting === 0 || served < this.#servedBefore || position <= NEAR_PLACES) return null;
    const wait = this.#waitSeconds;
    const estimated_wait_seconds = wait === null ? null : Math.ceil((wait * position) / this.#position);
    return { position, queue_size: Math.max(waiting, position), estimated_wait_seconds };
  }
}
