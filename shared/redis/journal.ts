import type { Redis } from 'ioredis';
import type { RawEntry } from '../contracts/journal.js';
import { EngineUnavailable } from '../errors/faults.js';
import { askRedis } from './ask-redis.js';
import { publishInShard } from './channels.js';
import { type Epoch, readEpoch } from './epoch.js';
import { entriesOf, type StreamRow, whole } from './journal-entries.js';
import { JOURNAL_START, journalPlace } from './journal-ids.js';
import { keys } from './keys.js';

/** Extent of the stream: its first promise (null = none), the last id ever assigned, and the number of rows. */
export type JournalPosition = { firstId: string | null; lastId: string; entries: number };

/** Reads and trims the journal in Redis. Only scripts append to it. */
export class Journal {
  /** Average number of promises per row in the last read (1 to 64), to estimate how many rows to read. */
  #promisesInRow = 1;

  constructor(readonly redis: Redis) {}

  /**
   * Returns the entries after `after`, oldest first, each with one promise. Fewer than `limit` = the journal has no
   * more.
   */
  async read(after: string, limit: number): Promise<RawEntry[]> {
    const entries: RawEntry[] = [];
    for (let from = after; ; ) {
      const count = Math.ceil((limit - entries.length) / this.#promisesInRow);
      const rows = await askRedis(() => this.redis.xrange(keys.journal, `(${from}`, '+', 'COUNT', count));
      const found = entriesOf(rows, after);
      entries.push(...found);
      if (rows.length > 0) this.#promisesInRow = Math.max(1, found.length / rows.length);
      if (entries.length >= limit) return entries.slice(0, limit);
      const last = rows.at(-1);
      if (!last || rows.length < count) return entries;
      from = last[0];
    }
  }

  /** As `read`, with the epoch in one round trip: the epoch is replaced only while nothing is appended. */
  async readWithEpoch(after: string, limit: number): Promise<{ entries: RawEntry[]; epoch: Epoch | null }> {
    const [entries, epoch] = await Promise.all([this.read(after, limit), askRedis(() => readEpoch(this.redis))]);
    return { entries, epoch };
  }

  /** Returns the id of the last entry ever appended, even if it was trimmed; JOURNAL_START = none. */
  async lastId(): Promise<string> {
    return (await this.position()).lastId;
  }

  /**
   * Returns the same of a Redis that is in service.
   * @throws EngineUnavailable if it has lost its data: an empty journal would then say that nothing was promised
   */
  async lastIdInService(): Promise<string> {
    const lastId = await this.lastId();
    // In this order: when the epoch exists, the journal was not lost before.
    if (lastId === JOURNAL_START && (await askRedis(() => readEpoch(this.redis))) === null)
      throw new EngineUnavailable('redis', 'it has no epoch');
    return lastId;
  }

  async position(): Promise<JournalPosition> {
    try {
      return positionOf(null, await this.redis.xinfo('STREAM', keys.journal));
    } catch (error) {
      return positionOf(error, null);
    }
  }

  /**
   * Waits for an entry after `after`, for at most `waitMs`.
   * @returns id of the first such entry; null = none
   */
  async waitForEntryAfter(after: string, waitMs: number): Promise<string | null> {
    const found = await askRedis(() => this.redis.xread('COUNT', 1, 'BLOCK', waitMs, 'STREAMS', keys.journal, after));
    return found?.[0]?.[1][0]?.[0] ?? null;
  }

  /** Removes the entries up to and including `upTo`, which Postgres has committed. */
  async trim(upTo: string): Promise<void> {
    const [generation, n] = journalPlace(upTo);
    await askRedis(() => this.redis.xtrim(keys.journal, 'MINID', '=', `${generation}-${n + 1}`));
  }

  async announcePersisted(upTo: string): Promise<void> {
    await askRedis(() => publishInShard(this.redis, keys.persisted, upTo));
  }

  /** Returns the number of promises that Postgres has not committed, and the time of the oldest (null = none). */
  async backlog(): Promise<{ entries: number; oldestMs: number | null }> {
    const [[first], [last]] = await askRedis(() =>
      Promise.all([
        this.redis.xrange(keys.journal, '-', '+', 'COUNT', 1),
        this.redis.xrevrange(keys.journal, '+', '-', 'COUNT', 1),
      ]),
    );
    if (!first || !last) return { entries: 0, oldestMs: null };
    const [oldest] = entriesOf([first], JOURNAL_START) as [RawEntry];
    return { entries: await this.#countBetween(oldest.journalId, last[0]), oldestMs: whole(oldest.fields, 'at') };
  }

  /** Counts the promises between two ids, both included. Numbers have no gaps, and each history begins with 0. */
  async #countBetween(firstId: string, lastId: string): Promise<number> {
    const [[firstGeneration, first], [generation, last]] = [journalPlace(firstId), journalPlace(lastId)];
    if (generation === firstGeneration) return last - first + 1;
    const [before] = await askRedis(() => this.redis.xrevrange(keys.journal, `(${generation}-0`, '-', 'COUNT', 1));
    return last + 1 + (before ? await this.#countBetween(firstId, before[0]) : 0);
  }
}

/** Decodes the reply to XINFO STREAM, or its error. @throws EngineUnavailable */
export function positionOf(error: unknown, reply: unknown): JournalPosition {
  if (error instanceof Error && /no such key/.test(error.message))
    return { firstId: null, lastId: JOURNAL_START, entries: 0 };
  if (error) throw EngineUnavailable.from('redis', error);
  const info = reply as unknown[];
  const field = (name: string) => info[info.indexOf(name) + 1];
  const first = field('first-entry') as StreamRow | null;
  return {
    firstId: first ? (entriesOf([first], JOURNAL_START)[0]?.journalId ?? null) : null,
    lastId: String(field('last-generated-id')),
    entries: Number(field('length')),
  };
}
