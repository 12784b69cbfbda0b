import type { EntryOf, RawEntry } from '../contracts/journal.js';
import { campaignOfNumber } from '../domain/buckets.js';
import { orderIdOf } from '../domain/ids.js';
import { ContractError } from '../errors/faults.js';
import {
  decodeDurability,
  encodeDurability,
  encodeIdempotencyRecord,
  encodeStoredRequest,
} from './idempotency-record.js';
import { parseRecord, recordIn } from './record-format.js';
import { ANSWERED_PROMISE, PROMISES_HEADER, QUEUED_PROMISE, RESERVED_PROMISE } from './record-formats.js';

type Fields = Record<string, string>;

/** Maximum number of promises in one entry (lua/includes/journal_tail.lua). */
const MOST_PROMISES = 64;

/** Values that the promises of one entry share (`PROMISES_HEADER`). */
type Common = {
  /** As scripts have it: of the bucket in a divided campaign. */
  no: number;
  atMs: number;
  dueMs: number;
  terms: number;
  ticketKey: string;
  /** The digit that scripts write. */
  durability: string;
};

type PromiseEntry = EntryOf<'reserved' | 'queued' | 'answered'>;

/**
 * A promise of a packed entry, which contains all promises of one call of lua/reserve.lua. Such an entry has one line
 * with the shared values and one line per promise. Values are separated by tabs, which no id, key, record or JSON has.
 * The id of the entry is the number of its last promise, so that numbers have no gaps and trimming keeps an entry until
 * all of its promises are committed.
 */
export class PackedPromise implements RawEntry {
  constructor(
    readonly journalId: string,
    readonly common: Common,
    readonly line: string,
  ) {}

  /** The fields that a separate entry would have, or the raw line of a promise that cannot be decoded. */
  get fields(): Fields {
    try {
      return this.#plainFields();
    } catch {
      return { promise: this.line };
    }
  }

  #plainFields(): Fields {
    const entry = this.decode();
    const { atMs } = entry;
    const { no } = this.common;
    if (entry.kind === 'answered') {
      return { kind: 'answered', no: String(no), at: String(atMs), key: entry.key, answer: entry.answer };
    }
    const { kind, reservation, user, order, qty, code, key, answer, device, trace, stacking, metadata } = entry;
    const begin = { kind, no: String(no), reservation, user, order, qty: String(qty) };
    const end = { key, answer, device, trace, stacking: stacking ?? '', ...(metadata ? { metadata } : {}) };
    const codeText = code === null ? '' : String(code);
    if (kind === 'queued') return { ...begin, line: String(entry.lineNo), code: codeText, at: String(atMs), ...end };
    return {
      ...begin,
      slot: String(entry.slot),
      at: String(atMs),
      due: String(entry.dueMs),
      line: '0',
      state: entry.state,
      code: codeText,
      terms: String(entry.terms),
      ...end,
    };
  }

  /** Whether the response to this promise waits for the commit. */
  get isDurable(): boolean {
    return this.common.durability === encodeDurability('committed');
  }

  /** Decodes the promise. @throws ContractError if this version does not know its format */
  decode(): PromiseEntry {
    const { line } = this;
    if (line.startsWith(RESERVED_PROMISE.begin)) return this.#reserved();
    const { no, atMs } = this.common;
    const begin = { journalId: this.journalId, no: campaignOfNumber(no), atMs };
    if (line.startsWith(QUEUED_PROMISE.begin)) {
      const { line_no, stacking, metadata, ...promise } = parseRecord(QUEUED_PROMISE, line);
      const own = { stacking: stacking || null, metadata: metadata || null };
      return { ...begin, kind: 'queued', ...promise, lineNo: line_no, ...own };
    }
    if (line.startsWith(ANSWERED_PROMISE.begin)) {
      return { ...begin, kind: 'answered', ...parseRecord(ANSWERED_PROMISE, line) };
    }
    throw new ContractError(`journal entry ${this.journalId} has the unknown promise ${line}`);
  }

  /** Spelled out for speed, because every checkout has a promise. */
  #reserved(): EntryOf<'reserved'> {
    const promise = parseRecord(RESERVED_PROMISE, this.line);
    const { reservation, user, qty, code } = promise;
    const { no, atMs, dueMs, terms, ticketKey, durability } = this.common;
    const order = promise.order || orderIdOf(reservation);
    const answer = encodeIdempotencyRecord({
      kind: 'completed',
      reservationId: reservation,
      orderId: order,
      dueMs,
      ticketKey,
      durability: decodeDurability(durability),
      code,
      terms,
    });
    return {
      journalId: this.journalId,
      no: campaignOfNumber(no),
      atMs,
      kind: 'reserved',
      reservation,
      user,
      order,
      qty,
      slot: promise.slot,
      dueMs,
      lineNo: 0,
      state: dueMs > 0 ? 'reserved' : 'redeemed',
      code,
      terms,
      key: promise.key,
      answer: encodeStoredRequest(no, qty, user, promise.request, answer),
      device: promise.device,
      trace: promise.trace,
      stacking: promise.stacking || null,
      metadata: promise.metadata || null,
    };
  }
}

/**
 * Returns the promises of a packed entry in their order. A malformed entry yields as many promises as its `count`, so
 * that numbers have no gaps; these fail when they are decoded.
 * @param fields fields of the entry
 */
export function unpackPromises(journalId: string, fields: Fields): PackedPromise[] {
  const [header = '', ...lines] = String(fields.promises).split('\n');
  const count = Number(fields.count);
  if (lines.length !== count) lines.length = Math.max(1, Math.min(count || 1, MOST_PROMISES));
  const dash = journalId.indexOf('-');
  const [generation, first] = [journalId.slice(0, dash + 1), Number(journalId.slice(dash + 1)) - lines.length + 1];
  const common = commonOf(Number(fields.no), header);
  return Array.from(lines, (line, i) => new PackedPromise(generation + (first + i), common, line ?? ''));
}

/** Parses the shared values. If they are malformed, the promises fail when they are decoded. */
function commonOf(no: number, header: string): Common {
  const { at, due, terms, ticket_key, durability } = recordIn(PROMISES_HEADER, header) ?? {};
  return {
    no,
    atMs: Number(at),
    dueMs: Number(due),
    terms: Number(terms),
    ticketKey: String(ticket_key),
    durability: String(durability),
  };
}
