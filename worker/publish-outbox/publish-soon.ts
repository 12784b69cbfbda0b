import { setTimeout as sleep } from 'node:timers/promises';

const STOP_LIMIT_MS = 500;

/**
 * Publishes what was committed, a moment later: under load several batches are committed in that time, and a job for each would cost more
 * than telling their events. The interval finds what this misses.
 */
export class PublishSoon {
  #timer: NodeJS.Timeout | null = null;
  #upTo = '';
  #stopped = false;

  constructor(
    readonly afterMs: number,
    readonly publish: (upTo: string) => Promise<void>,
  ) {}

  /** @param upTo journal id of the last entry that was committed */
  committed(upTo: string): void {
    this.#upTo = upTo;
    if (!this.#stopped)
      this.#timer ??= setTimeout(() => {
        this.#timer = null;
        this.publish(this.#upTo).catch(() => {});
      }, this.afterMs);
  }

  /** Publishes what waits, so that no event has to wait for another worker. */
  async stop(): Promise<void> {
    this.#stopped = true;
    if (!this.#timer) return;
    clearTimeout(this.#timer);
    this.#timer = null;
    // Without Redis it would wait for it.
    await Promise.race([this.publish(this.#upTo).catch(() => {}), sleep(STOP_LIMIT_MS, undefined, { ref: false })]);
  }
}
