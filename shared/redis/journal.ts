import type { Redis } from 'ioredis';
import type { JournalEntry, JournalKind, RawEntry } from '../contracts/journal.js';
import type { CampaignStatus } from '../domain/campaign.js';
import { ContractError, EngineUnavailable } from '../errors/faults.js';
import { keys } from './keys.js';

/** Before every entry: where a reader of a fresh journal starts. */
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
  answered: (f) => ({ kind: 'answered', key: word(f, 'key'), answer: word(f, 'answer') }),
  left: (f) => ({
    kind: 'left',
    user: word(f, 'user'),
    lineNo: whole(f, 'line'),
    ending: f.ending === 'closed' ? 'closed' : 'left',
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

/** @throws ContractError when a script wrote what this version does not know */
export function decodeEntry({ journalId, fields }: RawEntry): JournalEntry {
  const kind = fields.kind as JournalKind;
  const decode = Object.hasOwn(decoders, kind) ? decoders[kind] : undefined;
  if (!decode) throw new ContractError(`journal entry ${journalId} has the unknown kind ${fields.kind}`);
  return { journalId, no: whole(fields, 'no'), atMs: whole(fields, 'at'), ...decode(fields) } as JournalEntry;
}

/** Compares two journal ids (`milliseconds-sequence`): negative when the first is earlier. */
export function compareJournalIds(a: string, b: string): number {
  const [aMs, aSeq] = parts(a);
  const [bMs, bSeq] = parts(b);
  return aMs - bMs || aSeq - bSeq;
}

/** The journal in Redis, as its reader sees it. Only scripts append to it. */
export class Journal {
  constructor(readonly redis: Redis) {}

  /** Entries later than `after`, oldest first. */
  async read(after: string, limit: number): Promise<RawEntry[]> {
    const rows = await engine(() => this.redis.xrange(keys.journal, `(${after}`, '+', 'COUNT', limit));
    return rows.map(([journalId, flat]) => ({ journalId, fields: unflatten(flat) }));
  }

  /** Id of the last entry ever appended, also when it was trimmed; JOURNAL_START for a journal without any. */
  async lastId(): Promise<string> {
    try {
      const info = (await this.redis.xinfo('STREAM', keys.journal)) as unknown[];
      return String(info[info.indexOf('last-generated-id') + 1]);
    } catch (error) {
      if (error instanceof Error && /no such key/.test(error.message)) return JOURNAL_START;
      throw unavailable(error);
    }
  }

  /**
   * Waits until something later than `after` is there, at most `waitMs`.
   * @returns id of the last entry, which is not later than `after` when nothing came
   */
  async waitForEntryAfter(after: string, waitMs: number): Promise<string> {
    const found = await engine(() => this.redis.xread('COUNT', 1, 'BLOCK', waitMs, 'STREAMS', keys.journal, after));
    return found ? this.lastId() : after;
  }

  /** Removes what Postgres has committed: everything up to and with `upTo`. */
  async trim(upTo: string): Promise<void> {
    const [ms, sequence] = parts(upTo);
    await engine(() => this.redis.xtrim(keys.journal, 'MINID', '=', `${ms}-${sequence + 1}`));
  }

  /**
   * Makes the next id later than `id`, in a Redis whose journal is empty or shorter: ids grow from one incarnation of Redis
   * to the next, whatever its clock says. What such a journal still holds is committed already and is dropped.
   */
  async continueAfter(id: string): Promise<void> {
    await engine(async () => {
      await this.redis.del(keys.journal);
      // A stream without entries is made by a group, and needs none afterwards.
      await this.redis.xgroup('CREATE', keys.journal, 'made', '$', 'MKSTREAM');
      await this.redis.xgroup('DESTROY', keys.journal, 'made');
      await this.redis.call('XSETID', keys.journal, id);
    });
  }

  async announcePersisted(upTo: string): Promise<void> {
    await engine(() => this.redis.publish(keys.persisted, upTo));
  }

  /** Entries that Postgres has not committed yet, and the time of the oldest of them (null = none). */
  async backlog(): Promise<{ entries: number; oldestMs: number | null }> {
    const [entries, first] = await engine(() =>
      Promise.all([this.redis.xlen(keys.journal), this.redis.xrange(keys.journal, '-', '+', 'COUNT', 1)]),
    );
    const [oldest] = first;
    return { entries, oldestMs: oldest ? whole(unflatten(oldest[1]), 'at') : null };
  }
}

function parts(journalId: string): [number, number] {
  const [ms, sequence] = journalId.split('-');
  return [Number(ms), Number(sequence)];
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
  if (!Number.isSafeInteger(value)) throw new ContractError(`journal field ${name} is no integer: ${fields[name]}`);
  return value;
}

function codeOf(fields: Fields): number | null {
  return word(fields, 'code') === '' ? null : whole(fields, 'code');
}

async function engine<Value>(call: () => Promise<Value>): Promise<Value> {
  try {
    return await call();
  } catch (error) {
    throw unavailable(error);
  }
}

function unavailable(error: unknown): EngineUnavailable {
  return new EngineUnavailable('redis', error instanceof Error ? error.message : String(error), { cause: error });
}
