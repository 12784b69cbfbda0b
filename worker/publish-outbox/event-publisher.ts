import { setTimeout as sleep } from 'node:timers/promises';
import type { WrittenEvents } from '../../shared/projection/event-writer.js';
import { appendToStream, type PublishDeps, publishToStream, sweepOutbox, wakeEndpoints } from './publish.js';

const STOP_LIMIT_MS = 500;

export type EventPublisherDeps = PublishDeps & {
  limits: PublishDeps['limits'] & { publishAfterMs: number; eventsWaiting: number };
};

/**
 * Publishes events after their commit, in the worker that has committed them, from memory: the stream takes a batch only if
 * it ends with the event before it. After anything else (another publisher, a failure, a batch that has to be read, too
 * many that wait) it reads the outbox, as the sweep does. A crash loses nothing that the sweep would not find.
 */
export class EventPublisher {
  #waiting: WrittenEvents[] = [];
  #events = 0;
  #publishing: Promise<void> | null = null;
  #wakeTimer: NodeJS.Timeout | null = null;
  /** Last event that was committed here. */
  #last = 0;
  /** Whether an endpoint is in use, as of the last sweep. */
  #endpointsInUse = true;
  readonly #stop = new AbortController();

  constructor(readonly deps: EventPublisherDeps) {}

  /** Takes the events of a batch that was committed; batches come in the order of their commits. */
  committed(written: WrittenEvents): void {
    if (this.#stop.signal.aborted) return;
    const events = written.events?.length ?? 0;
    if (this.#events + events > this.deps.limits.eventsWaiting) this.#forget({ ...written, events: null });
    else this.#waiting.push(written);
    this.#events += events;
    this.#last = written.span.last;
    this.#publishing ??= this.#publish().finally(() => {
      this.#publishing = null;
    });
    if (this.#endpointsInUse) this.#wakeTimer ??= setTimeout(() => this.#wake(), this.deps.limits.publishAfterMs);
  }

  /** Publishes what was missed, wakes endpoints that are due, and measures how far behind everything is. */
  async sweep(): Promise<void> {
    this.#endpointsInUse = await sweepOutbox(this.deps);
  }

  /** Publishes what waits, so that no event has to wait for another worker. */
  async stop(): Promise<void> {
    this.#stop.abort();
    if (this.#wakeTimer) {
      clearTimeout(this.#wakeTimer);
      this.#wake();
    }
    // Without Redis it would wait for it.
    await Promise.race([this.#publishing, sleep(STOP_LIMIT_MS, undefined, { ref: false })]);
  }

  async #publish(): Promise<void> {
    for (let batch = this.#waiting.shift(); batch; batch = this.#waiting.shift()) {
      this.#events -= batch.events?.length ?? 0;
      if (await this.#append(batch).catch(() => false)) continue;
      // Several batches are committed meanwhile under load; one reading finds the events of all of them.
      await sleep(this.deps.limits.publishAfterMs, undefined, { signal: this.#stop.signal }).catch(() => {});
      this.#forget();
      await this.#publishFromOutbox().catch(() => {
        // An engine is away; the next batch or the sweep tries again.
      });
    }
  }

  async #publishFromOutbox(): Promise<void> {
    await publishToStream(this.deps, await this.deps.outbox.lastSeq());
  }

  /** @returns false when the outbox has to be read */
  async #append({ span, events }: WrittenEvents): Promise<boolean> {
    if (!events) return false;
    const { publishBatch } = this.deps.limits;
    let after = span.after;
    for (let from = 0; from < events.length; from += publishBatch) {
      const some = events.slice(from, from + publishBatch);
      const last = await appendToStream(this.deps, some, after);
      // Another publisher has read these from the outbox.
      if (last !== null) return last >= span.last;
      after = some.at(-1)?.seq ?? after;
    }
    return true;
  }

  #forget(...instead: WrittenEvents[]): void {
    this.#waiting = instead;
    this.#events = 0;
  }

  #wake(): void {
    this.#wakeTimer = null;
    wakeEndpoints(this.deps, this.#last).catch(() => {
      // The next sweep wakes them.
    });
  }
}
