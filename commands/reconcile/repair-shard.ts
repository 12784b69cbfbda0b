import type { Redis } from 'ioredis';
import type { ProductId, UserId } from '../../shared/domain/ids.js';
import { mayReacquire } from '../../shared/domain/terms.js';
import { COUNTED } from '../../shared/image/compare.js';
import { counted, factOf } from '../../shared/image/facts.js';
import { type CoveredTail, JournalTail, type RedisPosition, Uncovered } from '../../shared/image/journal-tail.js';
import { PostgresReader } from '../../shared/image/postgres-reader.js';
import { emptyPage, type Page, PostgresWriter } from '../../shared/image/postgres-writer.js';
import { rewindReservation } from '../../shared/image/rewind.js';
import { rewindCampaign } from '../../shared/image/rewind-records.js';
import { CampaignsTable, type StoredCampaign } from '../../shared/postgres/campaigns.js';
import { isPseudonym } from '../../shared/postgres/erasures.js';
import { JournalHistories } from '../../shared/postgres/journal-histories.js';
import type { Database, Queryable } from '../../shared/postgres/pool.js';
import { recountMinutes } from '../../shared/postgres/sale-minutes.js';
import type { JournalCursor } from '../../shared/projection/journal-cursor.js';
import type { NewTicket } from '../../shared/projection/projection.js';
import type { Beginnings } from '../../shared/redis/continuity.js';
import type { Epoch } from '../../shared/redis/epoch.js';
import type { EventStream } from '../../shared/redis/event-stream.js';
import type { Journal } from '../../shared/redis/journal.js';
import { compareJournalIds, generationOf } from '../../shared/redis/journal-ids.js';
import { keys } from '../../shared/redis/keys.js';
import { LOST, lastOfPass } from '../../shared/sale/recall.js';
import { type CampaignCopy, SaleCopy } from '../../shared/sale/sale-copy.js';
import { BATCH } from './batch.js';
import type { CampaignFindings } from './findings.js';
import { type Counts, count, findingsOf, findingsOfBucket, isLost, needOf, noCounts } from './need.js';
import {
  endOfPlace,
  isErased,
  type PlannedPlace,
  placeLeftSince,
  placeOfPerson,
  placeOfReservation,
  ticketOf,
} from './plan-places.js';
import { type FoundEntry, type FoundJournal, findJournal } from './position.js';
import { EntryOfNoCampaign, Superseded } from './refusals.js';
import type { CampaignRows } from './restored-buckets.js';
import { RestoredRows } from './restored-rows.js';
import { writeHead } from './write-head.js';

/** The limit between two statements of a transaction. It is long, because Redis is read in between. */
const IDLE_IN_TRANSACTION_MS = 60_000;

export type RepairDeps = {
  redis: Redis;
  journal: Journal;
  stream: EventStream;
  database: Database;
  cursor: JournalCursor;
};

/**
 * A campaign, or its bucket in this shard. `row`: null = Postgres lacks the campaign. `findings`: without `counts`.
 */
type Part = {
  copy: CampaignCopy;
  row: StoredCampaign | null;
  findings: CampaignFindings;
  counts: Counts;
};

/**
 * Repairs one shard, page by page. Each page is a transaction that holds the lock on the cursor: it reads rows and
 * records, rewinds the records to the position, and writes what the rows lack. The position is that before the first
 * entry of the journal, so a worker writes all later entries with their details.
 */
export class ShardRepair {
  readonly #copy: SaleCopy;
  readonly #tail: JournalTail;
  readonly #writer: PostgresWriter;
  readonly #changed = new Set<number>();
  /** As it was locked last. */
  #cursor: string;
  #parts: Part[] = [];

  private constructor(
    readonly deps: RepairDeps,
    readonly epoch: Epoch,
    readonly dryRun: boolean,
    public found: FoundJournal,
    known: Beginnings,
    readonly directory: ReadonlyMap<number, ProductId>,
    /** Campaigns whose number belongs to another campaign in the directory. */
    readonly unnamed: readonly ProductId[],
    readonly nowMs: number,
  ) {
    this.#cursor = found.cursor;
    this.#copy = new SaleCopy(deps.redis);
    this.#writer = new PostgresWriter(deps.redis, deps.cursor);
    const beginnings = [...new Map([...found.beginnings, ...known])];
    const since = async () => beginnings.map(([generation, afterId]) => ({ generation, afterId }));
    this.#tail = new JournalTail(deps.journal, null, { since });
  }

  /**
   * @param numbers of the campaigns that other shards have: those shards have what came of their entries
   * @throws Superseded, RedisBehind, EntryOfNoCampaign, EngineUnavailable
   */
  static async begin(
    deps: RepairDeps,
    epoch: Epoch,
    { dryRun, numbers }: { dryRun: boolean; numbers: ReadonlySet<number> },
  ): Promise<ShardRepair> {
    const { journal, database, cursor } = deps;
    const histories = new JournalHistories(database, cursor.shard);
    const [found, known] = await database.transaction(async (client) => {
      const at = await lock(client, cursor, epoch);
      const begun = await histories.since(generationOf(at));
      const known = new Map(begun.map(({ generation, afterId }) => [generation, afterId]));
      return [await findJournal(journal, at, epoch, known), known] as const;
    });
    const rows = await new CampaignsTable(database).toRestore();
    const { directory, unnamed } = await directoryOf(new SaleCopy(deps.redis), rows);
    const [seconds, micros] = await deps.redis.time();
    const nowMs = Number(seconds) * 1000 + Math.floor(Number(micros) / 1000);
    const repair = new ShardRepair(deps, epoch, dryRun, found, known, directory, unnamed, nowMs);
    for (const [no, entry] of found.campaigns) {
      if (directory.has(no)) continue;
      if (!numbers.has(no))
        throw new EntryOfNoCampaign(
          `the journal entry ${entry.id} is about campaign ${no}, which no shard of Redis has`,
        );
      repair.raise(entry);
    }
    return repair;
  }

  /**
   * Makes the repair write Redis as of an entry that the journal still has, if it is later than the position. Only over
   * a gap, because no worker persists then.
   * @returns whether it was
   */
  raise(entry: FoundEntry): boolean {
    if (!this.found.hasGap || compareJournalIds(entry.id, this.found.position) <= 0) return false;
    this.found = { ...this.found, position: entry.id, passed: entry.index + 1 };
    return true;
  }

  /** Locks the cursor until the transaction ends. @throws Superseded */
  async lock(client: Queryable): Promise<void> {
    this.#cursor = await lock(client, this.deps.cursor, this.epoch);
  }

  /** The entry as of which Redis is read, while the cursor is locked. */
  get #position(): string {
    const { position } = this.found;
    return compareJournalIds(this.#cursor, position) > 0 ? this.#cursor : position;
  }

  /**
   * The time of changes of reservations whose own time is lost. It is not later than the entries that the journal still
   * has: if Redis loses these, a recovery rejects what is older than the row.
   */
  get #lostMs(): number {
    return Math.min(this.nowMs, this.found.firstMs ?? this.nowMs);
  }

  /** The campaigns of this shard as they were at the position. */
  async campaigns(): Promise<CampaignCopy[]> {
    const read = await this.#copy.campaigns([...this.directory.values(), ...this.unnamed]);
    const copies: CampaignCopy[] = [];
    for (const copy of read.value) {
      const tail = await this.#cover(copy.no, read);
      copies.push(await this.#rewindCounters(rewindCampaign(copy, tail), tail));
    }
    return copies;
  }

  /**
   * Takes back what later entries changed in the counters of an archived campaign, which are all that Redis has of it.
   * The users of these entries were recalled, and stay in Redis until the entries are persisted.
   */
  async #rewindCounters(copy: CampaignCopy, tail: CoveredTail): Promise<CampaignCopy> {
    const changed = new Set<string>();
    for (const step of tail.steps()) if (step.fact === 'state' || step.fact === 'units') changed.add(step.of);
    if (!copy.archived || changed.size === 0) return copy;
    const read = await this.#copy.records({ product: copy.product, reservations: [...changed], users: [] });
    const { first, firstAfter } = await this.#cover(copy.no, read);
    const counters = { held: copy.held, redeemed: copy.redeemed, burned: copy.burned };
    for (const [id, record] of read.value.reservations) {
      const [before, after] = [first, firstAfter(tail.lastId)].map((one) =>
        counted(rewindReservation(id, factOf(record), null, one)),
      );
      for (const name of COUNTED) counters[name] += (before?.[name] ?? 0) - (after?.[name] ?? 0);
    }
    return { ...copy, ...counters };
  }

  /** Compares the campaigns with their rows; counts of earlier pages stay. @param copies at the position */
  compare(copies: readonly CampaignCopy[], { campaigns, buckets }: CampaignRows): void {
    const before = new Map(this.#parts.map(({ copy, counts }) => [copy.product, counts]));
    this.#parts = copies.map((copy) => {
      const row = campaigns.find(({ no }) => no === copy.no) ?? null;
      const bucket = buckets.find(({ no, bucket }) => no === copy.no && bucket === copy.part?.bucket) ?? null;
      const mayHide = this.#mayHide(copy, row);
      const findings = copy.part ? findingsOfBucket(copy, row, bucket, mayHide) : findingsOf(copy, row, mayHide);
      return { copy, row, findings, counts: before.get(copy.product) ?? noCounts() };
    });
  }

  /**
   * Whether lost changes of an archived campaign may have cancelled each other, so that equal counters prove nothing: a
   * refund, and a late payment that took the unit again. All other changes end a held unit or make a reservation.
   */
  #mayHide({ archived, pass, terms }: CampaignCopy, row: StoredCampaign | null): boolean {
    if (!archived || !row) return false;
    if (row.recordsLost || pass === LOST) return true;
    const last = pass === null ? null : lastOfPass(pass);
    if (!this.found.hasGap || (last !== null && compareJournalIds(last, this.found.cursor) <= 0)) return false;
    return mayReacquire(row) || mayReacquire(terms);
  }

  /** Takes over the rows as they are now, after Postgres got the campaigns that it lacked. */
  adopt(rows: readonly StoredCampaign[]): void {
    this.#parts = this.#parts.map((part) => ({ ...part, row: rows.find(({ no }) => no === part.copy.no) ?? null }));
  }

  /** Ends rows that take units, codes and places without right, which makes room for those that begin. */
  async writeEnds(): Promise<void> {
    for (const part of this.#comparable) {
      const { copy, row } = part;
      if (!row) continue;
      const bucket = copy.part?.bucket ?? null;
      const rows = new PostgresReader(this.deps.cursor, row, bucket ?? 0);
      for await (const ids of rows.reservationIds(BATCH, bucket))
        await this.#page(part, (client) => this.#endReservations(client, part, ids));
      for await (const places of rows.waitingUsers(BATCH, bucket)) {
        const users = places.map(({ user }) => user);
        await this.#page(part, (client) => this.#endPlaces(client, part, row, users));
      }
    }
  }

  /** Writes reservations and places that begin, or that reached a later state. */
  async writeBeginnings(): Promise<void> {
    for (const part of this.#comparable) {
      const { product } = part.copy;
      for await (const ids of this.#copy.reservationIds(product, BATCH))
        await this.#page(part, (client) => this.#beginReservations(client, part, ids));
      for await (const users of this.#copy.users(product, BATCH))
        await this.#page(part, (client) => this.#beginPlaces(client, part, users));
    }
  }

  /** Writes terms, total and status of the campaigns that are not divided. The caller holds the locks. */
  async writeHeads(client: Queryable): Promise<void> {
    const { shard, hasOthers } = this.deps.cursor;
    for (const { copy, row } of this.#writable) {
      if (copy.part) continue;
      const place = { shard: hasOthers ? shard : null, buckets: 1, startsAt: copy.terms.startsAt };
      await writeHead(client, { copy, row, need: needOf(copy, row), ...place }, this.nowMs);
    }
  }

  /** Writes the idempotency records of what was restored. */
  async fillAnswers(): Promise<void> {
    if (!this.found.hasGap && this.#changed.size === 0) return;
    const numbers = this.#comparable.map(({ copy }) => copy.no);
    await this.#writer.fillAnswers(this.deps.database, numbers, (client) => this.lock(client), this.nowMs);
  }

  /** Moves the cursor to the position, from where a worker goes on. The caller holds the locks. */
  async finish(client: Queryable): Promise<void> {
    const { cursor } = this.deps;
    const position = this.#position;
    const touched = this.found.hasGap ? this.#comparable.map(({ copy }) => copy.no) : [...this.#changed];
    // Reservations were written before their places, and times of both have changed since.
    await recountMinutes(client, touched);
    const { generation, server } = this.epoch;
    const histories = new Map([[generation, position], ...this.found.beginnings]);
    const rows = new RestoredRows(client);
    for (const [one, afterId] of histories)
      await rows.keepHistory({ generation: one, server: one === generation ? server : '' }, afterId, cursor.shard);
    await cursor.move(client, position);
  }

  /** Marks the rows of archived campaigns that have lost records. The caller holds the locks. */
  markLostRows(client: Queryable): Promise<void> {
    return new RestoredRows(client).markLost(this.#lost.map(({ copy }) => copy.no));
  }

  /**
   * Names the pass of archived campaigns that have lost records (shared/sale/recall.ts). Before the cursor moves,
   * because it would cover the pass.
   */
  async markLost(): Promise<void> {
    for (const { copy } of this.#lost) await this.deps.redis.hset(keys.campaign(copy.product), 'archived', LOST);
  }

  /** Notifies the processes that wait for the commit, and trims the journal, as a worker does after each batch. */
  async announce(): Promise<void> {
    const { journal } = this.deps;
    await journal.announcePersisted(this.found.position);
    await journal.trim(this.found.position);
  }

  get findings(): CampaignFindings[] {
    return this.#parts.map(({ findings, counts }) => ({ ...findings, ...counts }));
  }

  get #writable(): Part[] {
    return this.#parts.filter(({ copy, row }) => row === null || row.productId === copy.product);
  }

  get #lost(): Part[] {
    return this.#parts.filter(({ findings }) => isLost(findings.archivedLoss));
  }

  /** Those whose reservations Redis has. */
  get #comparable(): Part[] {
    return this.#writable.filter(({ copy }) => !copy.archived);
  }

  async #cover(no: number, read: RedisPosition): Promise<CoveredTail> {
    if (read.generation !== this.epoch.generation)
      throw new Superseded('a new history of Redis has begun meanwhile; repeat the command');
    // A server that follows another one, which has not been verified yet, has the other one's data.
    if (compareJournalIds(read.lastId, this.found.lastId) < 0)
      throw new Superseded('Redis has lost entries of its journal meanwhile; repeat the command');
    const tail = await this.#tail.cover(this.#position, read, no);
    if (!tail) throw new Uncovered(this.#position, read);
    return tail;
  }

  /** One transaction: plans the changes of a page, and writes them. */
  async #page(part: Part, plan: (client: Queryable) => Promise<Page>): Promise<void> {
    await this.deps.database.transaction(async (client) => {
      await this.lock(client);
      const page = await plan(client);
      if (this.dryRun || Object.values(page).every(({ length }) => length === 0)) return;
      await this.#writer.write(client, part.copy, page, this.#lostMs);
      this.#changed.add(part.copy.no);
    });
  }

  async #endReservations(client: Queryable, part: Part, ids: readonly string[]): Promise<Page> {
    const { counts } = part;
    const page = emptyPage();
    for (const { id, record, row, step, hasMark } of await this.#compared(client, part, ids)) {
      if (record && isErased(record, row)) {
        page.erased.push({ id, pseudonym: record.user });
        counts.erased += 1;
      }
      if (step === 'left_alone') counts.leftAlone += 1;
      if (step !== 'end' || !record) continue;
      page.changes.push({ id, record, row, hasMark });
      count(counts, record, row);
    }
    return page;
  }

  async #beginReservations(client: Queryable, part: Part, ids: readonly string[]): Promise<Page> {
    const page = emptyPage();
    const places: PlannedPlace[] = [];
    for (const compared of await this.#compared(client, part, ids)) {
      const { id, record, row, step, latest, payments, hasMark, first } = compared;
      const place = latest && placeOfReservation(id, latest, record !== null, first);
      if (place) places.push(place);
      if (!record || (!row && step === 'nothing')) continue;
      page.payments.push(...payments.map((payment) => ({ reservation: id, payment })));
      if (step !== 'insert' && step !== 'advance') continue;
      page.changes.push({ id, record, row, hasMark });
      count(part.counts, record, row);
    }
    page.tickets = await this.#missingTickets(client, part, places);
    page.erasedPlaces = await this.#erasedPlaces(client, part, places);
    return page;
  }

  #compared(client: Queryable, { copy: { no, product } }: Part, ids: readonly string[]) {
    return this.#writer.compare(client, product, ids, (read) => this.#cover(no, read));
  }

  async #endPlaces(
    client: Queryable,
    { copy: { no, product }, counts }: Part,
    row: StoredCampaign,
    users: readonly string[],
  ): Promise<Page> {
    const tickets = await new RestoredRows(client).waitingTickets(row.id, users);
    const reservations = tickets.map(({ reservation }) => reservation);
    const read = await this.#copy.records({ product, reservations, users });
    const { first } = await this.#cover(no, read);
    const ended = tickets.flatMap((ticket) => {
      const { user, lineNo, reservation } = ticket;
      const isMade = read.value.reservations.has(reservation) && first('state', reservation)?.before.length !== 0;
      const status = endOfPlace(ticket, read.value.people.get(user) ?? null, isMade, first);
      return status ? [{ no, lineNo, status, endedMs: this.nowMs }] : [];
    });
    counts.places.ended += ended.length;
    return { ...emptyPage(), ended };
  }

  async #beginPlaces(client: Queryable, part: Part, users: readonly string[]): Promise<Page> {
    const { no, product } = part.copy;
    const read = await this.#copy.records({ product, reservations: [], users });
    const { first } = await this.#cover(no, read);
    const places = [...read.value.people].flatMap(
      ([user, person]) => placeLeftSince(user, person, first) ?? placeOfPerson(user, person, first) ?? [],
    );
    const tickets = await this.#missingTickets(client, part, places);
    return { ...emptyPage(), tickets, erasedPlaces: await this.#erasedPlaces(client, part, places) };
  }

  /** The places of users who were erased since, which Postgres has under the ids of the users. */
  async #erasedPlaces(
    client: Queryable,
    { row, counts }: Part,
    places: readonly PlannedPlace[],
  ): Promise<Page['erasedPlaces']> {
    const ofErased = places.filter(({ user }) => isPseudonym(user as UserId));
    if (!row || ofErased.length === 0) return [];
    const others = await new RestoredRows(client).placesOfOthers(row.id, ofErased);
    counts.erased += others.size;
    return ofErased.flatMap(({ lineNo, user }) => (others.has(lineNo) ? [{ lineNo, pseudonym: user }] : []));
  }

  async #missingTickets(client: Queryable, part: Part, places: readonly PlannedPlace[]): Promise<NewTicket[]> {
    const { copy, row, counts } = part;
    const numbers = places.map(({ lineNo }) => lineNo);
    const known = row ? await new RestoredRows(client).lineNumbers(row.id, numbers) : new Set();
    const missing = places.filter(({ lineNo }) => !known.has(lineNo));
    counts.places.missing += missing.length;
    return missing.map((place) => {
      // Bucket 0 ends the line in Postgres, and then each bucket in Redis.
      const status = row?.status === 'closed' && place.status === 'waiting' ? 'closed' : place.status;
      return ticketOf(copy.no, { ...place, status }, this.nowMs);
    });
  }
}

/** @returns the cursor @throws Superseded */
async function lock(client: Queryable, cursor: JournalCursor, epoch: Epoch): Promise<string> {
  await client.query("select set_config('idle_in_transaction_session_timeout', $1, true)", [
    String(IDLE_IN_TRANSACTION_MS),
  ]);
  // No history begins in Postgres while the cursor is locked.
  const locked = await cursor.lockWithHistory(client);
  if ((locked.generation ?? 0) > epoch.generation)
    throw new Superseded('another Redis server continues the journal; connect to that one');
  return locked.cursor;
}

/** The campaigns by their numbers, and those whose number another one has. */
async function directoryOf(
  copy: SaleCopy,
  rows: readonly StoredCampaign[],
): Promise<{ directory: Map<number, ProductId>; unnamed: ProductId[] }> {
  const known = new Map(rows.map(({ no, productId }) => [no as number, productId]));
  const directory = new Map<number, ProductId>();
  const displaced = await copy.displaced();
  for (const [no, product] of await copy.directory()) {
    const other = directory.get(no);
    const isOwner = other === undefined || known.get(no) === product;
    if (isOwner) directory.set(no, product);
    if (other !== undefined) displaced.push(isOwner ? other : product);
  }
  const { value } = await copy.campaigns(displaced);
  return { directory, unnamed: value.flatMap(({ no, product }) => (directory.get(no) === product ? [] : [product])) };
}
