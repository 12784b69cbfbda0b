import type { Standing } from './types.js';

/** Places so near to the head are requested each time, because they change at any moment. */
const NEAR_PLACES = 10;

/** The public data of a line (GET /flash-sale/line). */
export type LineProgress = { served: number; waiting: number; must_be_seen: boolean };

/**
 * The position of a place by the public count of served users, between two exact positions. It is behind the truth by
 * the users ahead who have left meanwhile. It is ahead of it by users who were served between the data before the exact
 * position and that position, or out of their order, behind a group.
 */
export class LineEstimate {
  /** null = not known yet; 0 = none. */
  #position: number | null = null;
  #waitSeconds: number | null = null;
  #exactAt = Number.NEGATIVE_INFINITY;
  /** Count of served users before the exact position was asked; null = no estimate can begin with it. */
  #servedBefore: number | null = null;
  /** The server lacks the data, or the campaign needs to see its users. */
  #off = false;

  /** @param everyMs how long a position may be an estimate before the exact one is requested again */
  constructor(
    readonly everyMs: () => number,
    readonly now: () => number = () => performance.now(),
  ) {}

  /**
   * Takes an exact standing. @param before data of the line from before it was requested; null = none
   */
  exact({ position, estimated_wait_seconds }: Partial<Standing>, before: LineProgress | null): void {
    this.#position = position ?? 0;
    this.#waitSeconds = estimated_wait_seconds ?? null;
    this.unchanged(before);
  }

  /** The exact position is still the same, as the server has said. */
  unchanged(before: LineProgress | null): void {
    this.#exactAt = this.now();
    this.#servedBefore = before?.served ?? null;
    if (before?.must_be_seen) this.#off = true;
  }

  /**
   * Whether the public data are of use: as an estimate, or to begin one that the next look can use.
   * @param nextMs when the next look is due, from now
   */
  isUseful(nextMs: number): boolean {
    const isFar = this.#position === null || this.#position > NEAR_PLACES;
    return !this.#off && isFar && (!this.#isOld(this.now()) || nextMs < this.everyMs());
  }

  /** Whether a look that began at `ms` has to request the exact position. */
  #isOld(ms: number): boolean {
    return this.#servedBefore === null || ms - this.#exactAt >= this.everyMs();
  }

  /** The exact position has to be requested next. */
  expire(): void {
    this.#exactAt = Number.NEGATIVE_INFINITY;
  }

  /**
   * Returns the estimate; null = the exact position has to be requested.
   * @param askedAt when the data were requested
   */
  at(
    { served, waiting, must_be_seen }: LineProgress,
    askedAt = this.now(),
  ): Pick<Standing, 'position' | 'queue_size' | 'estimated_wait_seconds'> | null {
    const [exact, before] = [this.#position ?? 0, this.#servedBefore ?? 0];
    // An empty line has ended, or is a new one.
    if (this.#isOld(askedAt) || must_be_seen || waiting === 0 || served < before) return null;
    const position = exact - (served - before);
    if (position <= NEAR_PLACES) return null;
    const wait = this.#waitSeconds;
    const estimated_wait_seconds = wait === null ? null : Math.ceil((wait * position) / exact);
    return { position, queue_size: Math.max(waiting, position), estimated_wait_seconds };
  }
}
