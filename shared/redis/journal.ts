import type { Redis } from 'ioredis';
import type { JournalEntry, JournalKind, LeftReason, RawEntry } from '../contracts/journal.js';
import type { CampaignStatus } from '../domain/campaign.js';
import { ContractError, EngineUnavailable } from '../errors/faults.js';
import { type Epoch, readEpoch } from './epoch.js';
import { keys } from './keys.js';
import { PackedPromise, unpackPromises } from './packed-promises.js';

/** The id before every entry, where a reader of a new journal starts. */
export const JOURNAL_START = '0-0';

type Fields = Record<string, string>;
type Body<Kind extends JournalKind> = Omit<Extract<JournalEntry, { kind: Kind }>, 'journalId' | 'no' | 'atMs'>;

const ended =
  <Kind extends JournalKind>(kind: Kind) =>
  (f: Fields) => ({ kind, reservation: word(f, 'reservation'), reason: word(f, 'reason'), trace: word(f, 'trace') });

const decoders: { [Kind in JournalKind]: (f: Fields) => Body<JournalKind> } = {
  reserved: (f) => ({
    kind: 'reserved',
    reservation: word(f, 'reservation'),
    user: word(f, 'user'),
    order: word(f, 'order'),
    qty: whole(f, 'qty'),
    slot: whole(f, 'slot'),
    dueMs: whole(f, 'due'),
    lineNo: whole(f, 'line'),
    state: word(f, 'state') === 'redeemed' ? 'redeemed' : 'reserved',
    code: codeOf(f),
    terms: whole(f, 'terms'),
    key: word(f, 'key'),
    answer: word(f, 'answer'),
    device: word(f, 'device'),
    trace: word(f, 'trace'),
    stacking: f.stacking || null,
  }),
  queued: (f) => ({
    kind: 'queued',
    reservation: word(f, 'reservation'),
    user: word(f, 'user'),
    order: word(f, 'order'),
    qty: whole(f, 'qty'),
    lineNo: whole(f, 'line'),
    code: codeOf(f),
    key: word(f, 'key'),
    answer: word(f, 'answer'),
    device: word(f, 'device'),
    trace: word(f, 'trace'),
    stacking: f.stacking || null,
  }),
  redeemed: (f) => ({
    kind: 'redeemed',
    reservation: word(f, 'reservation'),
    slot: whole(f, 'slot'),
    reacquired: word(f, 'reacquired') === '1',
    payment: word(f, 'payment'),
    trace: word(f, 'trace'),
  }),
  released: ended('released'),
  expired: ended('expired'),
  voided: ended('voided'),
  refunded: (f) => ({
    kind: 'refunded',
    reservation: word(f, 'reservation'),
    burned: word(f, 'burned') === '1',
    trace: word(f, 'trace'),
  }),
  paid_again: (f) => ({
    kind: 'paid_again',
    reservation: word(f, 'reservation'),
    payment: word(f, 'payment'),
    first: word(f, 'first'),
    trace: word(f, 'trace'),
  }),
  answered: (f) => ({ kind: 'answered', key: word(f, 'key'), answer: word(f, 'answer') }),
  left: (f) => ({
    kind: 'left',
    user: word(f, 'user'),
    lineNo: whole(f, 'line'),
    ending: f.ending === 'closed' ? 'closed' : 'left',
    // Entries of an older version have no reason.
    reason: (f.reason ?? '') as LeftReason,
    trace: word(f, 'trace'),
  }),
  line_closed: (f) => ({ kind: 'line_closed', upTo: whole(f, 'up_to') }),
  status: (f) => ({
    kind: 'status',
    action: word(f, 'action'),
    before: word(f, 'before') as CampaignStatus,
    status: word(f, 'status') as CampaignStatus,
    actor: word(f, 'actor'),
    request: word(f, 'request'),
    ...(f.reason ? { reason: f.reason } : {}),
  }),
  restocked: (f) => ({
    kind: 'restocked',
    delta: whole(f, 'delta'),
    before: whole(f, 'before'),
    total: whole(f, 'total'),
    actor: word(f, 'actor'),
    request: word(f, 'request'),
  }),
};

/** Decodes an entry. @throws ContractError if this version does not know its format */
export function decodeEntry(raw: RawEntry): JournalEntry {
  if (raw instanceof PackedPromise) return raw.decode();
  const { journalId, fields } = raw;
  const kind = fields.kind as JournalKind;
  const decode = Object.hasOwn(decoders, kind) ? decoders[kind] : undefined;
  if (!decode) throw new ContractError(`journal entry ${journalId} has the unknown kind ${fields.kind}`);
  return { journalId, no: whole(fields, 'no'), atMs: whole(fields, 'at'), ...decode(fields) } as JournalEntry;
}

/** Compares two journal ids (`generation-n`); negative = the first is earlier. */
export function compareJournalIds(a: string, b: string): number {
  const [aGeneration, aNumber] = journalPlace(a);
  const [bGeneration, bNumber] = journalPlace(b);
  return aGeneration - bGeneration || aNumber - bNumber;
}

/** Returns the earliest of at least one journal id. */
export function earliest(ids: readonly string[]): string {
  return ids.reduce((first, id) => (compareJournalIds(id, first) < 0 ? id : first));
}

/** Returns the generation and the number of a journal id. */
export function journalPlace(journalId: string): [generation: number, n: number] {
  const dash = journalId.indexOf('-');
  return [Number(journalId.slice(0, dash)), Number(journalId.slice(dash + 1))];
}

/** Parses an entry in the format that scripts return: a flat JSON array of the id and the fields. */
export function parseEntry(text: string): RawEntry {
  const [journalId, ...flat] = JSON.parse(text) as string[];
  return { journalId: String(journalId), fields: unflatten(flat) };
}

/** Returns the generation of an entry's history: the first part of its id. */
export function generationOf(journalId: string): number {
  return journalPlace(journalId)[0];
}

/** Returns the number of an entry in its history: the second part of its id. */
export function numberOf(journalId: string): number {
  return journalPlace(journalId)[1];
}

/** Returns the id of the next entry in the same history. */
export function nextId(journalId: string): string {
  const [generation, number] = journalPlace(journalId);
  return `${generation}-${number + 1}`;
}

/** Extent of the stream: its first promise (null = none), the last id ever assigned, and the number of rows. */
export type JournalPosition = { firstId: string | null; lastId: string; entries: number };

/** A row of the stream. */
type StreamRow = [id: string, flat: string[]];

/**
 * Returns the entries in rows of the stream. Each promise of a packed row becomes a separate entry.
 * @param after entries up to this id are omitted, because a packed row may be committed in part
 */
export function entriesOf(rows: readonly StreamRow[], after: string): RawEntry[] {
  const entries: RawEntry[] = [];
  for (const [journalId, flat] of rows) {
    const fields = unflatten(flat);
    if (fields.promises === undefined) {
      entries.push({ journalId, fields });
      continue;
    }
    const promises = unpackPromises(journalId, fields);
    const isPartial = compareJournalIds(promises[0]?.journalId ?? journalId, after) <= 0;
    entries.push(...(isPartial ? promises.filter((one) => compareJournalIds(one.journalId, after) > 0) : promises));
  }
  return entries;
}

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
      const rows = await engine(() => this.redis.xrange(keys.journal, `(${from}`, '+', 'COUNT', count));
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
    const [entries, epoch] = await Promise.all([this.read(after, limit), engine(() => readEpoch(this.redis))]);
    return { entries, epoch };
  }

  /** Returns the id of the last entry ever appended, even if it was trimmed; JOURNAL_START = none. */
  async lastId(): Promise<string> {
    return (await this.position()).lastId;
  }

  async position(): Promise<JournalPosition> {
    try {
      const info = (await this.redis.xinfo('STREAM', keys.journal)) as unknown[];
      const field = (name: string) => info[info.indexOf(name) + 1];
      const first = field('first-entry') as StreamRow | null;
      return {
        firstId: first ? (entriesOf([first], JOURNAL_START)[0]?.journalId ?? null) : null,
        lastId: String(field('last-generated-id')),
        entries: Number(field('length')),
      };
    } catch (error) {
      if (error instanceof Error && /no such key/.test(error.message))
        return { firstId: null, lastId: JOURNAL_START, entries: 0 };
      throw EngineUnavailable.from('redis', error);
    }
  }

  /**
   * Waits for an entry after `after`, for at most `waitMs`.
   * @returns id of the first such entry; null = none
   */
  async waitForEntryAfter(after: string, waitMs: number): Promise<string | null> {
    const found = await engine(() => this.redis.xread('COUNT', 1, 'BLOCK', waitMs, 'STREAMS', keys.journal, after));
    return found?.[0]?.[1][0]?.[0] ?? null;
  }

  /** Removes the entries up to and including `upTo`, which Postgres has committed. */
  async trim(upTo: string): Promise<void> {
    const [generation, n] = journalPlace(upTo);
    await engine(() => this.redis.xtrim(keys.journal, 'MINID', '=', `${generation}-${n + 1}`));
  }

  async announcePersisted(upTo: string): Promise<void> {
    await engine(() => this.redis.publish(keys.persisted, upTo));
  }

  /** Returns the number of promises that Postgres has not committed, and the time of the oldest (null = none). */
  async backlog(): Promise<{ entries: number; oldestMs: number | null }> {
    const [[first], [last]] = await engine(() =>
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
    const [before] = await engine(() => this.redis.xrevrange(keys.journal, `(${generation}-0`, '-', 'COUNT', 1));
    return last + 1 + (before ? await this.#countBetween(firstId, before[0]) : 0);
  }
}

export function unflatten(flat: string[]): Fields {
  const fields: Fields = {};
  for (let i = 0; i + 1 < flat.length; i += 2) fields[String(flat[i])] = String(flat[i + 1]);
  return fields;
}

function word(fields: Fields, name: string): string {
  const value = fields[name];
  if (value === undefined) throw new ContractError(`a journal entry of kind ${fields.kind} has no ${name}`);
  return value;
}

function whole(fields: Fields, name: string): number {
  const value = Number(word(fields, name));
  if (!Number.isSafeInteger(value)) throw new ContractError(`journal field ${name} is not an integer: ${fields[name]}`);
  return value;
}

function codeOf(fields: Fields): number | null {
  return word(fields, 'code') === '' ? null : whole(fields, 'code');
}

async function engine<Value>(call: () => Promise<Value>): Promise<Value> {
  try {
    return await call();
  } catch (error) {
    throw EngineUnavailable.from('redis', error);
  }
}
