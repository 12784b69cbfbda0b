import { setTimeout as sleep } from 'node:timers/promises';
import { isRefusal } from './pool.js';

/** Why a row was not written: the buffer was full, Postgres rejected the row, or the process stopped. */
export type DropReason = 'full' | 'refused' | 'stopped';

export type BackgroundWriterOptions<Row> = {
  /** Maximum number of buffered rows. Beyond it, the oldest are dropped. */
  capacity: number;
  /** Maximum number of rows per statement. */
  batchRows: number;
  everyMs: number;
  /**
   * Inserts rows with one statement. Rows may come again after a failure.
   * @throws EngineUnavailable; pg.DatabaseError when Postgres rejects one of them
   */
  insert: (rows: readonly Row[]) => Promise<void>;
  onWritten?: (count: number) => void;
  onDropped: (rows: readonly Row[], reason: DropReason) => void;
  /** Called for the first failure of an outage. */
  onTrouble: (error: unknown) => void;
};

const RETRY_AT_STOP_MS = 50;

/**
 * Writes rows to Postgres in the background. `add` puts a row into a ring buffer, and one writer at a time inserts
 * batches. It never slows down a request: if Postgres is too slow, the oldest rows are dropped and reported.
 */
export class BackgroundWriter<Row> {
  readonly #ring: (Row | undefined)[];
  /** Numbers of the oldest row in the ring and of the next one. */
  #first = 0;
  #next = 0;
  /** Rows that were taken out of the ring and are not known to be written; the next write retries them. */
  #batch: Row[] = [];
  #writing: Promise<void> | null = null;
  /** Runs while rows wait. */
  #timer: NodeJS.Timeout | undefined;
  /** From `start` to `stop`. */
  #running = false;
  #inTrouble = false;

  constructor(readonly options: BackgroundWriterOptions<Row>) {
    this.#ring = new Array(options.capacity);
  }

  /** Number of rows that are not written yet. */
  get waiting(): number {
    return this.#next - this.#first + this.#batch.length;
  }

  start(): void {
    this.#running = true;
    this.#writeLater();
  }

  /** Buffers a row; never waits, never throws. */
  add(row: Row): void {
    const { capacity, batchRows, onDropped } = this.options;
    if (this.#next - this.#first === capacity) {
      const oldest = this.#ring[this.#first % capacity] as Row;
      this.#first += 1;
      onDropped([oldest], 'full');
    }
    this.#ring[this.#next % capacity] = row;
    this.#next += 1;
    if (this.#next - this.#first === batchRows) setImmediate(() => this.#write());
    this.#writeLater();
  }

  /** Writes the buffered rows for at most `deadlineMs`; the rest is reported as dropped. */
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
    const left = [...this.#batch, ...this.#take(this.waiting)];
    if (left.length > 0) this.options.onDropped(left, 'stopped');
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
      // Rows that arrived during the insert wait for the next run, unless they fill a batch: many small statements
      // would cost more.
      do {
        if (this.#batch.length === 0) this.#batch = this.#take(this.options.batchRows);
        if (this.#batch.length > 0) await this.#insert(this.#batch);
        this.#batch = [];
      } while (this.#next - this.#first >= this.options.batchRows);
      this.#inTrouble = false;
    } catch (error) {
      if (!this.#inTrouble) this.options.onTrouble(error);
      this.#inTrouble = true;
    }
  }

  #take(most: number): Row[] {
    const { capacity } = this.options;
    const end = Math.min(this.#next, this.#first + most);
    const batch: Row[] = [];
    for (; this.#first < end; this.#first += 1) {
      batch.push(this.#ring[this.#first % capacity] as Row);
      this.#ring[this.#first % capacity] = undefined;
    }
    return batch;
  }

  /** Inserts a batch. Halves a batch that Postgres rejects until the bad row is alone, and drops only that row. */
  async #insert(batch: readonly Row[]): Promise<void> {
    try {
      await this.options.insert(batch);
      this.options.onWritten?.(batch.length);
    } catch (error) {
      if (!isRefusal(error)) throw error;
      if (batch.length === 1) return this.options.onDropped(batch, 'refused');
      const half = Math.ceil(batch.length / 2);
      await this.#insert(batch.slice(0, half));
      await this.#insert(batch.slice(half));
    }
  }
}
