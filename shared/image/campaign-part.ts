import { setTimeout as sleep } from 'node:timers/promises';
import type { StoredCampaign } from '../postgres/campaigns.js';
import type { JournalCursor } from '../projection/journal-cursor.js';
import type { Journal } from '../redis/journal.js';
import type { SaleReader } from '../sale/sale-reader.js';
import { AtPosition, COUNTED } from './compare.js';
import { type Counted, counted, type Head, type Place, type Reservation } from './facts.js';
import { type CoveredTail, JournalTail, type RedisPosition, Uncovered } from './journal-tail.js';
import { type HeadRow, PostgresReader } from './postgres-reader.js';
import { RedisReader } from './redis-reader.js';
import { rewindPlace, rewindReservation } from './rewind.js';

/** Where a campaign, or one of its buckets, is. */
export type PartDeps = { sale: SaleReader; journal: Journal; cursor: JournalCursor };

/**
 * How long a page is read again while the journal begins after the cursor. Entries that Postgres commits are trimmed,
 * so a cursor that was read before the commit is read again.
 */
const COVER_MS = 2_000;
const LOOK_AGAIN_MS = 20;
/** How often the counters are read again while entries that change them are appended and trimmed meanwhile. */
const HEAD_TRIES = 20;
const BATCH = 1_000;

/** Facts of both sides at one position. */
export type Page<Redis, Postgres = Redis> = { redis: AtPosition<Redis>; postgres: Postgres };
type Facts<Fact> = ReadonlyMap<string, Fact>;
type Changes = Counted & { known: boolean };
/** A counter that is null is not known. */
type RewoundHead = { [Name in keyof Head]: Head[Name] | null };

/** One bucket of a campaign, or all of a campaign that is not divided: both sides at one position, page by page. */
export class CampaignPart {
  readonly redis: RedisReader;
  readonly postgres: PostgresReader;
  readonly #tail: JournalTail;

  constructor(
    readonly deps: PartDeps,
    readonly campaign: StoredCampaign,
    readonly bucket: number,
  ) {
    this.redis = new RedisReader(deps.sale, campaign.productId);
    this.postgres = new PostgresReader(deps.cursor, campaign, bucket);
    this.#tail = new JournalTail(deps.journal, campaign.no, this.postgres.histories);
  }

  /** @throws Uncovered, EngineUnavailable */
  async reservations(ids: readonly string[]): Promise<Page<Facts<Reservation>>> {
    const [rows, records, tail] = await this.#cover(
      () => this.postgres.reservations(ids),
      () => this.redis.reservations(ids),
    );
    const found = rewindAll(ids, records.value, rows.facts, (...facts) => rewindReservation(...facts, tail.first));
    return { redis: new AtPosition(tail, found), postgres: rows.facts };
  }

  /** @throws Uncovered, EngineUnavailable */
  async places(users: readonly string[]): Promise<Page<Facts<Place>>> {
    const [rows, places, tail] = await this.#cover(
      () => this.postgres.places(users),
      () => this.redis.places(users),
    );
    // Bucket 0 ends the line in Postgres, and then each bucket in Redis.
    if (rows.ended) return { redis: new AtPosition(tail, rows.facts), postgres: rows.facts };
    const found = rewindAll(users, places.value, rows.facts, (...facts) => rewindPlace(...facts, tail.first));
    return { redis: new AtPosition(tail, found), postgres: rows.facts };
  }

  /**
   * The status and the counters of both sides, and the number of reservations in Redis. `head` null = the campaign is
   * missing on one side. @throws Uncovered, EngineUnavailable
   */
  async head(): Promise<{ head: Page<RewoundHead, Head> | null; reservations: number }> {
    let voided: ReadonlySet<string> = new Set();
    for (let tries = 1; ; tries += 1) {
      const [rows, found, tail] = await this.#cover(
        () => this.postgres.head([...voided]),
        () => this.redis.head(),
      );
      const [{ head, reservations }, row] = [found.value, rows.facts];
      if (!head || !row.head) return { head: null, reservations };
      const needed = voidedIn(tail);
      const known = [...needed].every((id) => voided.has(id));
      const changes = known ? await this.#changes(tail, row.states) : null;
      voided = needed;
      if (!changes && tries === HEAD_TRIES) throw new Uncovered(rows.cursor, found);
      if (!changes) continue;
      const ended = this.bucket > 0 && row.head.status === 'closed';
      const rewound = rewindHead(head, tail, changes, ended);
      // In Postgres bucket 0 has the status of the campaign.
      const redis: RewoundHead = this.bucket > 0 ? { ...rewound, status: null } : rewound;
      return { head: { redis: new AtPosition(tail, redis), postgres: row.head }, reservations };
    }
  }

  /**
   * Sums what the tail changes in the counters. Entries lack the quantities, so the records are read. `known`: Redis
   * has all of them.
   * @returns null = a later entry makes a record ambiguous, or is not in the journal any more
   */
  async #changes(tail: CoveredTail, states: HeadRow['states']): Promise<Changes | null> {
    const sum: Changes = { held: 0, redeemed: 0, burned: 0, known: true };
    const ids = new Set<string>();
    for (const step of tail.steps()) {
      if (step.fact === 'state' || step.fact === 'units') ids.add(step.of);
    }
    for (const some of batchesOf(ids)) {
      const read = await this.redis.reservations(some);
      const later = await this.#tail.cover(tail.cursor, read);
      if (!later) return null;
      const firstAfter = later.firstAfter(tail.lastId);
      for (const id of some) {
        const [record, state] = [read.value.get(id), states.get(id)];
        if (record && firstAfter('state', id)?.void !== undefined) return null;
        if (!record) sum.known = false;
        else {
          const after = counted(rewindReservation(id, record, null, firstAfter));
          const before = counted(rewindReservation(id, record, state ? { ...record, state } : null, later.first));
          for (const name of COUNTED) sum[name] += after[name] - before[name];
        }
      }
    }
    return sum;
  }

  /**
   * Reads a page of Postgres, then the same of Redis, and the entries in between.
   * @throws Uncovered when they are not in the journal any more
   */
  async #cover<Rows extends { cursor: string }, Records extends RedisPosition>(
    readRows: () => Promise<Rows>,
    readRecords: () => Promise<Records>,
  ): Promise<[Rows, Records, CoveredTail]> {
    const giveUpAt = performance.now() + COVER_MS;
    for (;;) {
      const rows = await readRows();
      const records = await readRecords();
      const tail = await this.#tail.cover(rows.cursor, records);
      if (tail) return [rows, records, tail];
      if (performance.now() > giveUpAt) throw new Uncovered(rows.cursor, records);
      await sleep(LOOK_AGAIN_MS);
    }
  }
}

function rewindAll<Fact>(
  names: readonly string[],
  records: Facts<Fact>,
  rows: Facts<Fact>,
  rewind: (name: string, record: Fact | null, row: Fact | null) => Fact | null,
): Facts<Fact> {
  const found = new Map<string, Fact>();
  for (const name of names) {
    const fact = rewind(name, records.get(name) ?? null, rows.get(name) ?? null);
    if (fact) found.set(name, fact);
  }
  return found;
}

function voidedIn(tail: CoveredTail): ReadonlySet<string> {
  const found = new Set<string>();
  for (const step of tail.steps()) if (step.fact === 'state' && step.void !== undefined) found.add(step.of);
  return found;
}

/** @param ended the line has ended in Postgres, and in Redis it may not have ended in all buckets */
function rewindHead(head: Head, tail: CoveredTail, changes: Changes, ended: boolean): RewoundHead {
  let [waiting, total]: [number | null, number | null] = [head.waiting, head.total];
  for (const step of tail.steps()) {
    if (step.fact === 'place' && waiting !== null) waiting += step.before ? 1 : -1;
    if (step.fact === 'line') waiting = null;
    if (step.fact === 'total' && total !== null) total -= step.added;
  }
  const unitsOf = (name: keyof Counted) => (changes.known ? head[name] - changes[name] : null);
  const units = { held: unitsOf('held'), redeemed: unitsOf('redeemed'), burned: unitsOf('burned') };
  const status = tail.first('status', '')?.before ?? head.status;
  return { ...units, total, waiting: ended ? null : waiting, status };
}

function* batchesOf(ids: ReadonlySet<string>): Generator<readonly string[]> {
  const all = [...ids];
  for (let start = 0; start < all.length; start += BATCH) yield all.slice(start, start + BATCH);
}
