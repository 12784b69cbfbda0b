import type { JournalEntry, JournalKind, LeftReason, RawEntry } from '../contracts/journal.js';
import { bucketOfNumber, campaignOfNumber } from '../domain/buckets.js';
import type { CampaignStatus } from '../domain/campaign.js';
import { ContractError } from '../errors/faults.js';
import { compareJournalIds } from './journal-ids.js';
import { PackedPromise, unpackPromises } from './packed-promises.js';

type Fields = Record<string, string>;
type Body<Kind extends JournalKind> = Omit<Extract<JournalEntry, { kind: Kind }>, 'journalId' | 'no' | 'atMs'>;

const byOf = ({ by }: Fields): { by?: string } => (by ? { by } : {});

const ended =
  <Kind extends JournalKind>(kind: Kind) =>
  (f: Fields) => ({
    ...{ kind, reservation: word(f, 'reservation'), reason: word(f, 'reason') },
    ...byOf(f),
    trace: word(f, 'trace'),
  });

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
    metadata: f.metadata || null,
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
    metadata: f.metadata || null,
  }),
  redeemed: (f) => ({
    kind: 'redeemed',
    reservation: word(f, 'reservation'),
    slot: whole(f, 'slot'),
    reacquired: word(f, 'reacquired') === '1',
    payment: word(f, 'payment'),
    ...byOf(f),
    trace: word(f, 'trace'),
  }),
  released: ended('released'),
  expired: ended('expired'),
  voided: ended('voided'),
  refunded: (f) => ({
    kind: 'refunded',
    reservation: word(f, 'reservation'),
    burned: word(f, 'burned') === '1',
    ...byOf(f),
    trace: word(f, 'trace'),
  }),
  reduced: (f) => ({
    kind: 'reduced',
    reservation: word(f, 'reservation'),
    before: whole(f, 'before'),
    qty: whole(f, 'qty'),
    ending: f.ending === 'released' ? 'released' : f.ending === 'burned' ? 'burned' : 'refunded',
    released: whole(f, 'released'),
    refunded: whole(f, 'refunded'),
    burned: whole(f, 'burned'),
    reason: word(f, 'reason'),
    ...byOf(f),
    trace: word(f, 'trace'),
  }),
  extended: (f) => ({
    kind: 'extended',
    reservation: word(f, 'reservation'),
    dueMs: whole(f, 'due'),
    ...byOf(f),
    trace: word(f, 'trace'),
  }),
  paid_again: (f) => ({
    kind: 'paid_again',
    reservation: word(f, 'reservation'),
    payment: word(f, 'payment'),
    first: word(f, 'first'),
    ...byOf(f),
    trace: word(f, 'trace'),
  }),
  answered: (f) => ({ kind: 'answered', key: word(f, 'key'), answer: word(f, 'answer') }),
  left: (f) => ({
    kind: 'left',
    user: word(f, 'user'),
    lineNo: whole(f, 'line'),
    ending: f.ending === 'closed' ? 'closed' : 'left',
    reason: word(f, 'reason') as LeftReason,
    ...(f.by ? { removed: { by: f.by, request: word(f, 'request'), note: word(f, 'note') } } : {}),
    ...(f.reservation
      ? { place: { reservation: f.reservation, order: word(f, 'order'), qty: whole(f, 'qty'), code: codeOf(f) } }
      : {}),
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
  sealed: () => ({ kind: 'sealed' }),
  moved_out: (f) => ({
    ...{ kind: 'moved_out', to: whole(f, 'to'), units: whole(f, 'units'), out: whole(f, 'out') },
    codes: f.codes ? f.codes.split(',').map(Number) : [],
  }),
  moved_in: (f) => ({ kind: 'moved_in', from: whole(f, 'from'), units: whole(f, 'units'), out: whole(f, 'out') }),
  restocked: (f) => ({
    kind: 'restocked',
    delta: whole(f, 'delta'),
    before: whole(f, 'before'),
    total: whole(f, 'total'),
    actor: word(f, 'actor'),
    request: word(f, 'request'),
  }),
};

/** Kinds of entries without a reservation, which would name the bucket. */
const OF_BUCKETS: ReadonlySet<string> = new Set<JournalKind>([
  ...(['status', 'restocked', 'line_closed', 'sealed', 'moved_out', 'moved_in'] as const),
]);

/** Decodes an entry. @throws ContractError if this version does not know its format */
export function decodeEntry(raw: RawEntry): JournalEntry {
  if (raw instanceof PackedPromise) return raw.decode();
  const { journalId, fields } = raw;
  const kind = fields.kind as JournalKind;
  const decode = Object.hasOwn(decoders, kind) ? decoders[kind] : undefined;
  if (!decode) throw new ContractError(`journal entry ${journalId} has the unknown kind ${fields.kind}`);
  const no = whole(fields, 'no');
  const entry = { journalId, no: campaignOfNumber(no), atMs: whole(fields, 'at'), ...decode(fields) } as JournalEntry;
  if (no !== entry.no && OF_BUCKETS.has(kind)) entry.bucket = bucketOfNumber(no);
  return entry;
}

/** Parses an entry in the format that scripts return: a flat JSON array of the id and the fields. */
export function parseEntry(text: string): RawEntry {
  const [journalId, ...flat] = JSON.parse(text) as string[];
  return { journalId: String(journalId), fields: unflatten(flat) };
}

/** A row of the stream. */
export type StreamRow = [id: string, flat: string[]];

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

/** Makes an object of a flat list of names and values. */
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

/** An integer field. @throws ContractError if it is none */
export function whole(fields: Fields, name: string): number {
  const value = Number(word(fields, name));
  if (!Number.isSafeInteger(value)) throw new ContractError(`journal field ${name} is not an integer: ${fields[name]}`);
  return value;
}

function codeOf(fields: Fields): number | null {
  return word(fields, 'code') === '' ? null : whole(fields, 'code');
}
