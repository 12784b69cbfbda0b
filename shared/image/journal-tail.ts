import type { RawEntry } from '../contracts/journal.js';
import { campaignOfNumber } from '../domain/buckets.js';
import { type Beginnings, firstBreak } from '../redis/continuity.js';
import type { Journal } from '../redis/journal.js';
import { decodeEntry } from '../redis/journal-entries.js';
import { compareJournalIds, generationOf } from '../redis/journal-ids.js';
import { PackedPromise } from '../redis/packed-promises.js';
import { type Before, beforesOf, type FirstChange } from './rewind.js';

const READ_BATCH = 1_000;

/** Where Redis is: the last entry of its journal, and the generation of its history. */
export type RedisPosition = { lastId: string; generation: number };

/** The journal no longer has all entries between Postgres and Redis, so nothing is known about the differences. */
export class Uncovered extends Error {
  override readonly name = 'Uncovered';
  constructor(cursor: string, { lastId }: RedisPosition) {
    super(
      `Postgres has the journal up to ${cursor}, and the journal in Redis no longer has all entries from there to ` +
        `${lastId}. The database is a replica that has stopped, or Postgres was set back (npm run reconcile -- --after-restore)`,
    );
  }
}

/** A change of one fact, and the id of its entry. */
export type Step = Before & { at: string };

/** The changes between two positions. Only a `JournalTail` makes one, when it has every entry between them. */
export type CoveredTail = {
  readonly cursor: string;
  readonly lastId: string;
  first: FirstChange;
  /** As `first`, for a later position than the cursor. */
  firstAfter(position: string): FirstChange;
  /** The changes after the cursor, up to `lastId`, in the order of the journal. */
  steps(): Generator<Step>;
};

/** The changes of one entry, and the number of its campaign. */
type Changed = { no: number; steps: readonly Step[] };

/**
 * The entries of one campaign, or of all in the shard, after the cursor, read forward once. Keeps of each entry only
 * what rewinds a fact, and drops what the cursor has passed, so its size does not depend on the number of reservations.
 */
export class JournalTail {
  /** Fact → its changes, oldest first. */
  readonly #changes = new Map<string, Step[]>();
  /** Id of an entry → its changes, oldest first. */
  readonly #entries = new Map<string, Changed>();
  /** The entries from `#first` to `#last` were read without a gap; null = none was read after `#last`. */
  #first: string | null = null;
  #last: string | null = null;
  #beginnings: Beginnings = new Map();

  /**
   * @param no of the campaign; null = all campaigns of the shard
   * @param histories of the Postgres whose rows are compared
   */
  constructor(
    readonly journal: Pick<Journal, 'read'>,
    readonly no: number | null,
    readonly histories: { since(generation: number): Promise<readonly { generation: number; afterId: string }[]> },
  ) {}

  /**
   * Returns the changes between the cursor and a later position of Redis; null = some of the entries are missing, and
   * the caller reads the cursor again. Never call it with an earlier cursor than before.
   * @param no of the campaign whose changes are needed
   */
  async cover(cursor: string, redis: RedisPosition, no = this.no): Promise<CoveredTail | null> {
    if (this.#last === null || compareJournalIds(this.#last, cursor) < 0) this.#startAfter(cursor);
    this.#drop(cursor);
    const target = await this.#target(cursor, redis);
    if (target === null) return null;
    await this.#readTo(target);
    if (compareJournalIds(target, cursor) > 0 && !this.#reaches(cursor, target)) return null;
    return this.#covered(cursor, redis.lastId, Number(no));
  }

  /** A history that began after the cursor may contain entries that an earlier journal had. null = it is not known. */
  async #target(cursor: string, { lastId, generation }: RedisPosition): Promise<string | null> {
    if (generation <= generationOf(cursor)) return lastId;
    await this.#learn(generation, generationOf(cursor));
    const afterId = this.#beginnings.get(generation);
    if (afterId === undefined) return null;
    return compareJournalIds(afterId, lastId) > 0 ? afterId : lastId;
  }

  async #readTo(target: string): Promise<void> {
    while (this.#last !== null && compareJournalIds(this.#last, target) < 0) {
      const entries = await this.journal.read(this.#last, READ_BATCH);
      if (entries.length === 0) return;
      for (const entry of entries) {
        const before: string = this.#last;
        const generation = generationOf(entry.journalId);
        if (generation !== generationOf(before)) await this.#learn(generation, generationOf(before));
        if (firstBreak(before, [entry.journalId], this.#beginnings) !== null) this.#startAfter(before);
        this.#first ??= entry.journalId;
        this.#last = entry.journalId;
        this.#add(entry);
      }
    }
  }

  async #learn(generation: number, after: number): Promise<void> {
    if (this.#beginnings.has(generation)) return;
    const known = (await this.histories.since(after)).map(({ generation, afterId }) => [generation, afterId] as const);
    this.#beginnings = new Map([...this.#beginnings, ...known]);
  }

  #reaches(cursor: string, target: string): boolean {
    const [first, last] = [this.#first, this.#last];
    if (first === null || last === null || compareJournalIds(last, target) < 0) return false;
    return compareJournalIds(cursor, first) >= 0 || firstBreak(cursor, [first], this.#beginnings) === null;
  }

  #startAfter(id: string): void {
    this.#changes.clear();
    this.#entries.clear();
    this.#first = null;
    this.#last = id;
  }

  #drop(cursor: string): void {
    for (const [id, { no, steps }] of this.#entries) {
      if (compareJournalIds(id, cursor) > 0) return;
      this.#entries.delete(id);
      for (const step of steps) {
        const changes = this.#changes.get(keyOf(no, step));
        changes?.shift();
        if (changes?.length === 0) this.#changes.delete(keyOf(no, step));
      }
    }
  }

  #add(entry: RawEntry): void {
    const no = campaignNumberOf(entry);
    if (this.no !== null && no !== this.no) return;
    const steps = beforesOf(decodeEntry(entry)).map((before) => ({ ...before, at: entry.journalId }));
    if (steps.length === 0) return;
    this.#entries.set(entry.journalId, { no, steps });
    for (const step of steps) {
      const changes = this.#changes.get(keyOf(no, step));
      if (changes) changes.push(step);
      else this.#changes.set(keyOf(no, step), [step]);
    }
  }

  #covered(cursor: string, lastId: string, no: number): CoveredTail {
    const [changes, entries] = [this.#changes, this.#entries];
    const firstAfter = (position: string) =>
      ((fact, of) =>
        changes.get(keyOf(no, { fact, of }))?.find(({ at }) => compareJournalIds(at, position) > 0)) as FirstChange;
    return {
      cursor,
      lastId,
      first: firstAfter(cursor),
      firstAfter,
      *steps() {
        for (const { no: its, steps } of entries.values())
          for (const step of its === no ? steps : [])
            if (compareJournalIds(step.at, cursor) > 0 && compareJournalIds(step.at, lastId) <= 0) yield step;
      },
    };
  }
}

const keyOf = (no: number, { fact, of }: Pick<Before, 'fact' | 'of'>) => `${no} ${fact} ${of}`;

/** The number of the campaign of an entry, without the bucket. */
export function campaignNumberOf(entry: RawEntry): number {
  return campaignOfNumber(entry instanceof PackedPromise ? entry.common.no : Number(entry.fields.no));
}
