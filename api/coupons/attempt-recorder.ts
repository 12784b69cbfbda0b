import { BackgroundWriter, type DropReason as WriterReason } from '../../shared/postgres/background-writer.js';
import { type Attempt, newAttemptId, type TimedAttempt } from '../../shared/postgres/redemption-attempts.js';
import { LocalQuota } from '../guards/limits/local-quota.js';

/** Why an attempt was not written: its network has made too many, or as BackgroundWriter says. */
export type DropReason = 'limited' | WriterReason;

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

/** `id`: "" until the first try to write it. */
type Buffered = { attempt: Attempt; atMs: number; id: string };

/** Longer codes and ids are never valid. They are not kept, so that clients cannot fill the memory with them. */
const MAX_TEXT = 128;
const MINUTE_MS = 60_000;

/**
 * Writes attempts to Postgres in the background. The table is a log for investigations, which may lose entries;
 * promises go through the journal.
 */
export class AttemptRecorder {
  readonly #writer: BackgroundWriter<Buffered>;
  /** Rows by network. */
  readonly #rows: LocalQuota;
  readonly #valid: LocalQuota;

  constructor(
    readonly table: { insert(attempts: readonly TimedAttempt[]): Promise<void> },
    readonly options: RecorderOptions,
  ) {
    const { enabled, capacity, perNetwork, callersKept, onDropped } = options;
    this.#rows = new LocalQuota(perNetwork.rows, MINUTE_MS, callersKept);
    this.#valid = new LocalQuota(perNetwork.valid, MINUTE_MS, callersKept);
    this.#writer = new BackgroundWriter<Buffered>({
      ...options,
      capacity: enabled ? capacity : 0,
      insert: (rows) => table.insert(rows.map(timed)),
      onDropped: (rows, reason) => onDropped(rows.length, reason),
    });
  }

  /** Number of attempts that are not written yet. */
  get waiting(): number {
    return this.#writer.waiting;
  }

  start(): void {
    if (this.options.enabled) this.#writer.start();
  }

  /**
   * Buffers an attempt; never waits, never throws.
   * @returns false if it is only counted, because its network makes too many
   */
  record(attempt: Attempt): boolean {
    const { enabled, nowMs, onDropped } = this.options;
    if (this.#isBeyond(attempt)) {
      if (enabled) onDropped(1, 'limited');
      return false;
    }
    // A 429 has a log line, but no row.
    if (enabled && attempt.outcome !== 'rate_limited')
      this.#writer.add({ attempt: bounded(attempt), atMs: nowMs(), id: '' });
    return true;
  }

  /** Anyone can send any number of public codes, so rows are bounded by network. Promises are bounded by the units. */
  #isBeyond({ outcome, network, reservationId }: Attempt): boolean {
    if (network === null || (reservationId !== null && outcome !== 'replayed')) return false;
    return (outcome === 'valid' && this.#valid.take(network) > 0) || this.#rows.take(network) > 0;
  }

  /** Writes the buffered attempts for at most `deadlineMs`; the rest is counted as dropped. */
  async stop(deadlineMs: number): Promise<void> {
    await this.#writer.stop(deadlineMs);
  }
}

/** The same id for each try. */
function timed(row: Buffered): TimedAttempt {
  if (row.id === '') row.id = newAttemptId();
  return { ...row.attempt, id: row.id, atMs: row.atMs };
}

function bounded(attempt: Attempt): Attempt {
  const { code, userId, deviceFp, network } = attempt;
  if (!isLong(code) && !isLong(userId) && !isLong(deviceFp) && !isLong(network)) return attempt;
  const short = (text: string | null) => (isLong(text) ? null : text);
  return { ...attempt, code: short(code), userId: short(userId), deviceFp: short(deviceFp), network: short(network) };
}

const isLong = (text: string | null): boolean => text !== null && text.length > MAX_TEXT;
