/**
 * Publishes what was committed, a moment later: under load several batches are committed in that time, and a job for each would cost more
 * than telling their events. The interval finds what this misses.
 */
export class PublishSoon {
  #timer: NodeJS.Timeout | null = null;
  #upTo = '';

  constructor(
    readonly afterMs: number,
    readonly publish: (upTo: string) => Promise<void>,
  ) {}

  /** @param upTo journal id of the last entry that was committed */
  committed(upTo: string): void {
    this.#upTo = upTo;
    this.#timer ??= setTimeout(() => {
      this.#timer = null;
      this.publish(this.#upTo).catch(() => {});
    }, this.afterMs);
  }

  stop(): void {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
  }
}
