import { setTimeout as sleep } from 'node:timers/promises';
import type { Log } from '../../shared/observability/log.js';
import type { JournalCursor } from '../../shared/postgres/journal-cursor.js';
import type { JobQueues } from '../../shared/queues/queues.js';
import { compareJournalIds, JOURNAL_START, type Journal } from '../../shared/redis/journal.js';
import type { RelayLease } from '../../shared/redis/relay-lease.js';

/** A range is made again when it is not committed by then, should its job have vanished or be held by a worker that died. */
const REMAKE_AFTER_MS = 2_000;
/** Without news of a new entry the journal is looked at this often. */
const IDLE_MS = 250;
const TROUBLE_MS = 250;

/**
 * Turns what is new in the journal into one BullMQ job at a time, named by its range. While a job runs, the next range
 * grows: many promises wait for one transaction. The relay reads no entries and keeps no state that matters: it starts
 * from the cursor in Postgres, and two relays at once make jobs that do nothing.
 */
export class JournalRelay {
  #stopping = false;
  #loop: Promise<void> | null = null;
  #persisted = JOURNAL_START;
  #wake: (() => void) | null = null;

  constructor(
    readonly journal: Journal,
    readonly cursor: JournalCursor,
    readonly queues: JobQueues,
    readonly lease: RelayLease,
    readonly log: Log,
  ) {}

  /** The range that was made last. */
  #made: string | null = null;

  start(): void {
    this.#loop = this.#run();
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    this.#wake?.();
    await this.#loop;
    await this.lease.release();
  }

  /** A batch was committed, by whichever worker. */
  persisted(upTo: string): void {
    if (compareJournalIds(upTo, this.#persisted) > 0) this.#persisted = upTo;
    this.#wake?.();
  }

  async #run(): Promise<void> {
    while (!this.#stopping) {
      try {
        if (!(await this.lease.hold())) {
          await this.#pause(IDLE_MS);
          continue;
        }
        await this.#relayOnce();
      } catch (error) {
        this.log.warn({ err: error }, 'the relay will try again');
        await this.#pause(TROUBLE_MS);
      }
    }
  }

  async #relayOnce(): Promise<void> {
    const last = await this.journal.waitForEntryAfter(this.#persisted, IDLE_MS);
    if (compareJournalIds(last, this.#persisted) <= 0) return;
    const from = this.#persisted;
    const range = `${from}_${last}`;
    // The same range is the same job. Made again, it is one of this worker's own: BullMQ takes a job from a dead worker by
    // Redis's clock, which may have gone back.
    await this.queues.add('persist', range === this.#made ? `${range}_${this.lease.holder}` : range, {
      from,
      to: last,
    });
    this.#made = range;
    const deadline = performance.now() + REMAKE_AFTER_MS;
    while (!this.#stopping && compareJournalIds(this.#persisted, last) < 0 && performance.now() < deadline) {
      await this.#pause(Math.max(1, deadline - performance.now()));
    }
    // The announcement may be lost (pub/sub); the cursor is not.
    if (compareJournalIds(this.#persisted, last) < 0) this.persisted(await this.cursor.read());
  }

  async #pause(ms: number): Promise<void> {
    const abort = new AbortController();
    await Promise.race([
      sleep(ms, undefined, { signal: abort.signal }).catch(() => {}),
      new Promise<void>((resolve) => {
        this.#wake = resolve;
      }),
    ]);
    this.#wake = null;
    abort.abort();
  }
}
