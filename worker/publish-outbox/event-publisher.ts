import { setTimeout as sleep } from 'node:timers/promises';
import type { WrittenEvents } from '../../shared/projection/event-writer.js';
import { appendToStream, type PublishDeps, publishToStream, sweepOutbox, wakeEndpoints } from './publish.js';

const STOP_LIMIT_MS = 500;

export type EventPublisherDeps = PublishDeps & {
  limits: PublishDeps['limits'] & { publishAfterMs: number; waiting: number };
};

/**
 * Publishes events from memory, in the worker that committed them. The stream accepts a batch only if the last event of
 * the stream is the one before the batch. Otherwise the publisher reads the outbox, as the sweep does: after another
 * publisher, after a failure, for a batch without its events, and when too many events wait. If a worker crashes, the
 * sweep publishes its events.
 */
export class EventPublisher {
  #waiting: WrittenEvents[] = [];
  #events = 0;
  #publishing: Promise<void> | null = null;
  #wakeTimer: NodeJS.Timeout | null = null;
  /** The last event that this worker committed. */
  #last = 0;
  /** Whether an endpoint was in use at the last sweep. */
  #endpointsInUse = true;
  readonly #stop = new AbortController();

  constructor(readonly deps: EventPublisherDeps) {}

  /** Receives the events of a committed batch. Batches arrive in the order of their commits. */
  committed(written: WrittenEvents): void {
    if (this.#stop.signal.aborted) return;
    const events = written.events?.length ?? 0;
    if (this.#events + events > this.deps.limits.waiting) this.#forget({ ...written, events: null });
    else this.#waiting.push(written);
    this.#events += events;
    this.#last = written.span.last;
    this.#publishing ??= this.#publish().finally(() => {
      this.#publishing = null;
    });
    if (this.#endpointsInUse) this.#wakeTimer ??= setTimeout(() => this.#wake(), this.deps.limits.publishAfterMs);
  }

  /**
   * Publishes events that were missed, starts deliveries to endpoints that are due, and measures the lag of each
   * destination.
   */
  async sweep(): Promise<void> {
    this.#endpointsInUse = await sweepOutbox(this.deps);
  }

  /** Publishes the waiting events, so that none waits for another worker. */
  async stop(): Promise<void> {
    this.#stop.abort();
    if (this.#wakeTimer) {
      clearTimeout(this.#wakeTimer);
      this.#wake();
    }
    // The limit is needed because publishing waits for Redis while Redis is away.
    await Promise.race([this.#publishing, sleep(STOP_LIMIT_MS, undefined, { ref: false })]);
  }

  async #publish(): Promise<void> {
    for (let batch = this.#waiting.shift(); batch; batch = this.#waiting.shift()) {
      this.#events -= batch.events?.length ?? 0;
      if (await this.#append(batch).catch(() => false)) continue;
      // Under load, several batches are committed during this pause. One read of the outbox finds the events of all of
      // them.
      await sleep(this.deps.limits.publishAfterMs, undefined, { signal: this.#stop.signal }).catch(() => {});
      this.#forget();
      await this.#publishFromOutbox().catch(() => {
        // Redis or Postgres is away. The next batch or the sweep tries again.
      });
    }
  }

  async #publishFromOutbox(): Promise<void> {
    await publishToStream(this.deps, await this.deps.outbox.lastSeq());
  }

  /** @returns false when the events have to be read from the outbox */
  async #append({ span, events }: WrittenEvents): Promise<boolean> {
    if (!events) return false;
    const { publishBatch } = this.deps.limits;
    let after = span.after;
    for (let from = 0; from < events.length; from += publishBatch) {
      const some = events.slice(from, from + publishBatch);
      const last = await appendToStream(this.deps, some, after);
      // Another publisher has appended events from the outbox.
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
