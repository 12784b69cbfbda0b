import { setTimeout as sleep } from 'node:timers/promises';
import { isRefusal } from '../../shared/postgres/pool.js';
import { type Attempt, newAttemptId, type TimedAttempt } from '../../shared/postgres/redemption-attempts.js';

/** Why an attempt was not written: no room while Postgres was slow, refused by Postgres, or the process ended. */
export type DropReason = 'full' | 'refused' | 'stopped';

export type RecorderOptions = {
  /** false = `record` does nothing */
  enabled: boolean;
  /** Attempts that may wait; then the oldest are dropped. */
  capacity: number;
  /** Rows of one statement. */
  batchRows: number;
  everyMs: number;
  nowMs: () => number;
  onWritten: (count: number) => void;
  onDropped: (count: number, reason: DropReason) => void;
  /** The first failure of an outage. */
  onTrouble: (error: unknown) => void;
};

/** Codes and names beyond this are not ours; keeping them would let strangers choose how much memory this takes. */
const MAX_TEXT = 128;
const RETRY_AT_STOP_MS = 50;

/**
 * Writes attempts behind the answers' back. `record` only puts one into a ring; one writer at a time carries batches to Postgres.
 * A sale is never slowed by it: when Postgres cannot follow, the oldest are dropped and counted. It is a log for looking into what
 * happened, not a promise; promises go through the journal.
 */
export class AttemptRecorder {
  readonly #ring: ({ attempt: Attempt; atMs: number } | undefined)[];
  /** Numbers of the oldest one in the ring and of the next to come. */
  #first = 0;
  #next = 0;
  /** Taken out of the ring and not known to be written; tried again as it is. */
  #batch: TimedAttempt[] = [];
  #writing: Promise<void> | null = null;
  #timer: NodeJS.Timeout | undefined;
  #inTrouble = false;

  constructor(
    readonly table: { insert(attempts: readonly TimedAttempt[]): Promise<void> },
    readonly options: RecorderOptions,
  ) {
    this.#ring = new Array(options.enabled ? options.capacity : 0);
  }

  /** Attempts that are not written yet. */
  get waiting(): number {
    return this.#next - this.#first + this.#batch.length;
  }

  start(): void {
    if (!this.options.enabled) return;
    this.#timer = setInterval(() => this.#write(), this.options.everyMs);
    this.#timer.unref();
  }

  /** Takes an attempt; never waits, never throws. */
  record(attempt: Attempt): void {
    const { enabled, capacity, batchRows, nowMs, onDropped } = this.options;
    if (!enabled) return;
    if (this.#next - this.#first === capacity) {
      this.#first += 1;
      onDropped(1, 'full');
    }
    this.#ring[this.#next % capacity] = { attempt: bounded(attempt), atMs: nowMs() };
    this.#next += 1;
    if (this.#next - this.#first === batchRows) setImmediate(() => this.#write());
  }

  /** Writes what waits, as long as there is time; the rest is counted as dropped. */
  async stop(deadlineMs: number): Promise<void> {
    clearInterval(this.#timer);
    const until = performance.now() + deadlineMs;
    while (this.waiting > 0 && performance.now() < until) {
      const cutOff = new AbortController();
      const late = sleep(until - performance.now(), undefined, { signal: cutOff.signal }).catch(() => {});
      await Promise.race([this.#write(), late]);
      cutOff.abort();
      if (this.waiting > 0) await sleep(Math.min(RETRY_AT_STOP_MS, Math.max(0, until - performance.now())));
    }
    if (this.waiting > 0) this.options.onDropped(this.waiting, 'stopped');
    this.#first = this.#next;
    this.#batch = [];
  }

  /** One at a time: a call during another one waits for that. */
  #write(): Promise<void> {
    this.#writing ??= this.#writeAll().finally(() => {
      this.#writing = null;
    });
    return this.#writing;
  }

  async #writeAll(): Promise<void> {
    try {
      // What came meanwhile waits for the next time, unless it is a whole batch: many small statements would cost more.
      do {
        if (this.#batch.length === 0) this.#batch = this.#take();
        if (this.#batch.length > 0) await this.#insert(this.#batch);
        this.#batch = [];
      } while (this.#next - this.#first >= this.options.batchRows);
      this.#inTrouble = false;
    } catch (error) {
      if (!this.#inTrouble) this.options.onTrouble(error);
      this.#inTrouble = true;
    }
  }

  #take(): TimedAttempt[] {
    const { batchRows, capacity } = this.options;
    const end = Math.min(this.#next, this.#first + batchRows);
    const batch: TimedAttempt[] = [];
    for (; this.#first < end; this.#first += 1) {
      const entry = this.#ring[this.#first % capacity];
      this.#ring[this.#first % capacity] = undefined;
      if (entry) batch.push({ ...entry.attempt, id: newAttemptId(), atMs: entry.atMs });
    }
    return batch;
  }

  /** Halves what Postgres refuses until the bad one is alone: it is left out and the others are kept. */
  async #insert(batch: readonly TimedAttempt[]): Promise<void> {
    try {
      await this.table.insert(batch);
      this.options.onWritten(batch.length);
    } catch (error) {
      if (!isRefusal(error)) throw error;
      if (batch.length === 1) return this.options.onDropped(1, 'refused');
      const half = Math.ceil(batch.length / 2);
      await this.#insert(batch.slice(0, half));
      await this.#insert(batch.slice(half));
    }
  }
}

function bounded(attempt: Attempt): Attempt {
  const { code, userId, deviceFp, network } = attempt;
  if (!isLong(code) && !isLong(userId) && !isLong(deviceFp) && !isLong(network)) return attempt;
  const short = (text: string | null) => (isLong(text) ? null : text);
  return { ...attempt, code: short(code), userId: short(userId), deviceFp: short(deviceFp), network: short(network) };
}

const isLong = (text: string | null): boolean => text !== null && text.length > MAX_TEXT;
