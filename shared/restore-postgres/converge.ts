import type { JournalEntry } from '../contracts/journal.js';
import type { ProductId } from '../domain/ids.js';
import type { Journal } from '../redis/journal.js';
import { decodeEntry } from '../redis/journal-entries.js';
import type { CampaignCopy, Records, SaleCopy, Wanted } from '../sale/sale-copy.js';

const BATCH = 1_000;
/** How many records may be read in one atomic step, which takes about 2 ms in Redis. */
const SMALL_REST = 500;
/**
 * After this many rounds the reading stops, because a running sale always changes some records. The rest is then what
 * changes within one round.
 */
const ROUNDS = 20;

/** Sets of reservations and users, by campaign. */
export class Names {
  readonly #byProduct = new Map<ProductId, { reservations: Set<string>; users: Set<string> }>();

  of(product: ProductId): { reservations: Set<string>; users: Set<string> } {
    let names = this.#byProduct.get(product);
    if (!names) {
      names = { reservations: new Set(), users: new Set() };
      this.#byProduct.set(product, names);
    }
    return names;
  }

  get size(): number {
    let size = 0;
    for (const { reservations, users } of this.#byProduct.values()) size += reservations.size + users.size;
    return size;
  }

  /** The names in batches of at most `limit` reservations and `limit` users. */
  wanted(limit: number): Wanted[] {
    return [...this.#byProduct].flatMap(([product, names]) => {
      const [reservations, users] = [[...names.reservations], [...names.users]];
      const batches: Wanted[] = [];
      for (let start = 0; start < Math.max(reservations.length, users.length); start += limit) {
        const end = start + limit;
        batches.push({ product, reservations: reservations.slice(start, end), users: users.slice(start, end) });
      }
      return batches;
    });
  }
}

/** The state of Redis at one moment: the requested records, and those that changed meanwhile. */
export type Picture = {
  /** The last journal entry that the picture contains. */
  lastId: string;
  campaigns: ReadonlyMap<ProductId, CampaignCopy>;
  /** All names that were read. A name without a record did not exist. */
  names: Names;
  records: ReadonlyMap<ProductId, Records>;
  /**
   * The last entries, whose records were read before these entries. They must be applied to the records in this order.
   */
  tail: JournalEntry[];
};

export type ConvergeDeps = { copy: SaleCopy; journal: Journal };

/**
 * Reads records while the sale goes on, and returns them as they were at one entry of the journal. Records that journal
 * entries change meanwhile are read again, until few are left. These are read together with the end of the journal in
 * one atomic step.
 * @param from the last entry before the first record was read
 */
export async function converge(
  { copy, journal }: ConvergeDeps,
  directory: Map<number, ProductId>,
  suspects: Names,
  from: string,
): Promise<Picture> {
  const records = new Map<ProductId, Records>();
  const names = new Names();
  await readAll(copy, suspects, names, records);
  let touched = new Names();
  let after = from;
  for (let round = 1; ; round += 1) {
    touched = new Names();
    for (;;) {
      const entries = (await journal.read(after, BATCH)).map(decodeEntry);
      await learn(copy, directory, entries);
      for (const entry of entries) touch(touched, directory, entry);
      after = entries.at(-1)?.journalId ?? after;
      if (entries.length < BATCH) break;
    }
    if (touched.size <= SMALL_REST || round === ROUNDS) break;
    await readAll(copy, touched, names, records);
  }
  for (;;) {
    const moment = await copy.moment(after, [...directory.values()], touched.wanted(BATCH));
    const entries = moment.entries.map(decodeEntry);
    // If a new campaign appears, the atomic step is repeated with it.
    if (await learn(copy, directory, entries)) continue;
    for (const [product, found] of moment.records) keep(records, product, found);
    for (const wanted of touched.wanted(BATCH)) note(names, wanted);
    const tail = entries.filter((entry) => !isContained(touched, directory, entry));
    for (const entry of tail) touch(names, directory, entry);
    return { lastId: moment.lastId, campaigns: moment.campaigns, names, records, tail };
  }
}

async function readAll(copy: SaleCopy, some: Names, names: Names, records: Map<ProductId, Records>): Promise<void> {
  for (const wanted of some.wanted(BATCH)) {
    keep(records, wanted.product, await copy.records(wanted));
    note(names, wanted);
  }
}

function note(names: Names, { product, reservations, users }: Wanted): void {
  const known = names.of(product);
  for (const id of reservations) known.reservations.add(id);
  for (const user of users) known.users.add(user);
}

function keep(records: Map<ProductId, Records>, product: ProductId, found: Records): void {
  const known = records.get(product) ?? { reservations: new Map(), people: new Map() };
  for (const [id, record] of found.reservations) known.reservations.set(id, record);
  for (const [user, person] of found.people) known.people.set(user, person);
  records.set(product, known);
}

/** Adds new campaigns of the entries to the directory. @returns whether there was one */
async function learn(
  copy: SaleCopy,
  directory: Map<number, ProductId>,
  entries: readonly JournalEntry[],
): Promise<boolean> {
  if (entries.every(({ no }) => directory.has(no))) return false;
  const before = directory.size;
  for (const [no, product] of await copy.directory()) if (!directory.has(no)) directory.set(no, product);
  return directory.size > before;
}

function touch(names: Names, directory: ReadonlyMap<number, ProductId>, entry: JournalEntry): void {
  const product = directory.get(entry.no);
  if (!product) return;
  const touched = names.of(product);
  if (entry.kind === 'queued' || entry.kind === 'left') touched.users.add(entry.user);
  else if ('reservation' in entry) touched.reservations.add(entry.reservation);
  if (entry.kind === 'reserved' && entry.lineNo > 0) touched.users.add(entry.user);
}

/** Whether the record that the entry changes was read after the entry. */
function isContained(read: Names, directory: ReadonlyMap<number, ProductId>, entry: JournalEntry): boolean {
  const product = directory.get(entry.no);
  if (!product) return true;
  const { reservations, users } = read.of(product);
  if (entry.kind === 'queued' || entry.kind === 'left') return users.has(entry.user);
  return 'reservation' in entry ? reservations.has(entry.reservation) : true;
}
