import { setTimeout as sleep } from 'node:timers/promises';
import { isRefusal } from '../../shared/postgres/pool.js';
import { type Attempt, newAttemptId, type TimedAttempt } from '../../shared/postgres/redemption-attempts.js';
import { LocalQuota } from '../guards/limits/local-quota.js';

/**
 * Why an attempt was not written: its network has made too many, the buffer was full, Postgres rejected the row, or the
 * process stopped.
 */
export type DropReason = 'limited' | 'full' | 'refused' | 'stopped';

export type RecorderOptions = {
  /** false = `record` does nothing */
  enabled: boolean;
  /** Maximum number of buffered attempts. Beyond it, the oldest are dropped. */
  capacity: number;
  /** Maximum number of rows per statement. */
  batchRows: number;
  everyMs: number;
  /** Rows of one network in a minute, those of valid checks among them. Promises have a row always. */
  perNetwork: { rows: number; valid: number };
  callersKept: number;
  nowMs: () => number;
  onWritten: (count: number) => void;
  onDropped: (count: number, reason: DropReason) => void;
  /** Called for the first failure of an outage. */
  onTrouble: (error: unknown) => void;
};

/** Longer codes and ids are never valid. They are not kept, so that clients cannot fill the memory with them. */
const MAX_TEXT = 128;
const RETRY_AT_STOP_MS = 50;
const MINUTE_MS = 60_000;

/**
 * Writes attempts to Postgres in the background. `record` puts an attempt into a ring buffer, and one writer at a time
 * inserts batches. It never slows down a sale: if Postgres is too slow, the oldest attempts are dropped and counted.
 * The table is a log for investigations, which may lose entries; promises go through the journal.
 */
export class AttemptRecorder {
  readonly #ring: ({ attempt: Attempt; atMs: number } | undefined)[];
  /** Numbers of the oldest attempt in the ring and of the next one. */
  #first = 0;
  #next = 0;
  /** Attempts that were taken out of the ring and are not known to be written; the next write retries them. */
  #batch: TimedAttempt[] = [];
  #writing: Promise<void> | null = null;
  /** Runs while attempts wait. */
  #timer: NodeJS.Timeout | undefined;
  /** From `start` to `stop`. */
  #running = false;
  #inTrouble = false;
  /** Rows by network. */
  readonly #rows: LocalQuota;
  readonly #valid: LocalQuota;

  constructor(
    readonly table: { insert(attempts: readonly TimedAttempt[]): Promise<void> },
    readonly options: RecorderOptions,
  ) {
    const { perNetwork, callersKept } = options;
    this.#rows = new LocalQuota(perNetwork.rows, MINUTE_MS, callersKept);
    this.#valid = new LocalQuota(perNetwork.valid, MINUTE_MS, callersKept);
    this.#ring = new Array(options.enabled ? options.capacity : 0);
  }

  /** Number of attempts that are not written yet. */
  get waiting(): number {
    return this.#next - this.#first + this.#batch.length;
  }

  start(): void {
    this.#running = this.options.enabled;
    this.#writeLater();
  }

  /**
   * Buffers an attempt; never waits, never throws.
   * @returns false if it is only counted, because its network makes too many
   */
  record(attempt: Attempt): boolean {
    const { enabled, capacity, batchRows, nowMs, onDropped } = this.options;
    if (this.#isBeyond(attempt)) {
      if (enabled) onDropped(1, 'limited');
      return false;
    }
    // A 429 has a log line, but no row.
    if (!enabled || attempt.outcome === 'rate_limited') return true;
    if (this.#next - this.#first === capacity) {
      this.#first += 1;
      onDropped(1, 'full');
    }
    this.#ring[this.#next % capacity] = { attempt: bounded(attempt), atMs: nowMs() };
    this.#next += 1;
    if (this.#next - this.#first === batchRows) setImmediate(() => this.#write());
    this.#writeLater();
    return true;
  }

  /** Anyone can send any number of public codes, so rows are bounded by network. Promises are bounded by the units. */
  #isBeyond({ outcome, network, reservationId }: Attempt): boolean {
    if (network === null || (reservationId !== null && outcome !== 'replayed')) return false;
    return (outcome === 'valid' && this.#valid.take(network) > 0) || this.#rows.take(network) > 0;
  }

  /** Writes the buffered attempts for at most `deadlineMs`; the rest is counted as dropped. */
  async stop(deadlineMs: number): Promise<void> {
    this.#running = false;
    clearTimeout(this.#timer);
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

  #writeLater(): void {
    if (!this.#running || this.waiting === 0 || this.#timer !== undefined) return;
    this.#timer = setTimeout(() => {
      this.#write().then(() => {
        this.#timer = undefined;
        this.#writeLater();
      });
    }, this.options.everyMs);
    this.#timer.unref();
  }

  /** Concurrent calls share one run. */
  #write(): Promise<void> {
    this.#writing ??= this.#writeAll().finally(() => {
      this.#writing = null;
    });
    return this.#writing;
  }

  async #writeAll(): Promise<void> {
    try {
      // Attempts that arrived during the insert wait for the next run, unless they fill a batch: many small statements
      // would cost more.
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

  /** Inserts a batch. Halves a batch that Postgres rejects until the bad row is alone, and drops only that row. */
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
