import type { EntryOf, JournalEntry, RawEntry } from '../../shared/contracts/journal.js';
import type { Queryable } from '../../shared/postgres/pool.js';
import { decodeStoredRequest } from '../../shared/redis/idempotency-record.js';
import { decodeEntry } from '../../shared/redis/journal-entries.js';
import { type Acknowledged, decodeAcknowledged } from '../../shared/sale/acknowledged.js';
import { decodeReservation } from '../../shared/sale/reservation-record.js';
import { entriesBetween, isOfReservation, queuedFrom, reservedFrom } from './adapt-acknowledged.js';

/** Row of a reservation in Postgres. `changedMs`: when it last changed. `dueMs`: 0 = nothing to pay. */
type KnownReservation = {
  no: number;
  status: string;
  burned: boolean;
  qty: number;
  changedMs: number;
  dueMs: number;
};
type KnownTicket = { reservation: string; status: string };

/** The rows in Postgres that a chunk of entries refers to. */
export type KnownRows = {
  reservations: Map<string, KnownReservation>;
  /** `campaign number/line number` → ticket. */
  tickets: Map<string, KnownTicket>;
  /** Reservation ids of the tickets. */
  ticketReservations: Set<string>;
  /** `campaign number/user` of the tickets. */
  ticketUsers: Set<string>;
  /** Campaign number → the highest line number, and whether it is closed. */
  campaigns: Map<number, { lastLineNo: number; closed: boolean }>;
};

export type Adapted = { entries: JournalEntry[]; rejected: { raw: RawEntry; reason: string }[] };

type Change = EntryOf<'redeemed' | 'released' | 'expired' | 'voided' | 'refunded'>;
/** An entry of the journal, or a promise that a response acknowledged again. */
export type Recovered = JournalEntry | Acknowledged;
/** Entries that are saved with the record of their reservation. */
type Recorded = Change | EntryOf<'extended' | 'reduced'>;

/**
 * Adapts entries that Redis lost to the rows in Postgres, so that they can be written like a usual batch:
 * - an entry that has been applied already is left out;
 * - a change of a reservation that Postgres lacks adds the reservation first, from its `record`;
 * - a reservation whose deadline passed before a later entry is expired first, so that the later entry can use its
 *   unit;
 * - a change that is older than the last change of the row is rejected, and so is a change of a voided row;
 * - an idempotency record is rejected if Postgres lacks its reservation or place, which would be another one then;
 * - a promise that was acknowledged again is compared with its row, and the entries between are added.
 * @param raws, decoded the same entries in both forms, in the order of the journal
 */
export function adaptEntries(raws: readonly RawEntry[], decoded: readonly Recovered[], known: KnownRows): Adapted {
  const adapted: Adapted = { entries: [], rejected: [] };
  for (const [i, entry] of decoded.entries()) {
    const raw = raws[i];
    if (raw === undefined) continue;
    const reason =
      entry.kind === 'acknowledged' ? adaptAcknowledged(entry, known, adapted) : adaptDated(entry, raw, known, adapted);
    if (reason !== null) adapted.rejected.push({ raw, reason });
  }
  return adapted;
}

function adaptDated(entry: JournalEntry, raw: RawEntry, known: KnownRows, adapted: Adapted): string | null {
  expireOverdue(entry.no, entry.atMs, known, adapted);
  return adaptOne(entry, raw, known, adapted);
}

/** @returns why the entry is rejected; null when it was added or has been applied already */
function adaptOne(entry: JournalEntry, raw: RawEntry, known: KnownRows, { entries }: Adapted): string | null {
  switch (entry.kind) {
    case 'reserved':
      if (!known.reservations.has(entry.reservation)) {
        entries.push(entry);
        remember(known, entry);
      }
      return null;
    case 'redeemed':
    case 'released':
    case 'expired':
    case 'voided':
    case 'refunded':
      return adaptChange(entry, raw, known, entries);
    case 'extended':
      return adaptExtended(entry, raw, known, entries);
    case 'reduced':
      return adaptReduced(entry, raw, known, entries);
    case 'queued':
      return adaptQueued(entry, known, entries);
    case 'left': {
      const ticket = known.tickets.get(`${entry.no}/${entry.lineNo}`);
      if (!ticket) return 'Postgres has no place in line with this number';
      if (ticket.status === 'promoted') return 'the place in line has been promoted';
      ticket.status = entry.ending;
      entries.push(entry);
      return null;
    }
    case 'paid_again':
      if (!known.reservations.has(entry.reservation)) return 'Postgres has no such reservation';
      entries.push(entry);
      return null;
    case 'answered':
      if (!hasPromiseOf(entry, known)) return 'Postgres has no such place or reservation';
      entries.push(entry);
      return null;
    case 'sealed':
    case 'moved_out':
    case 'moved_in':
    case 'line_closed':
    case 'status':
    case 'restocked':
      entries.push(entry);
      return null;
    default:
      return entry satisfies never;
  }
}

/** Adds what leads from the row to the fact, then the response if no added entry has it. */
function adaptAcknowledged(fact: Acknowledged, known: KnownRows, adapted: Adapted): null {
  const { no, reservation, key, answer, journalId, atMs } = fact;
  // A payment that was made in time comes before the end of this reservation.
  expireOverdue(no, atMs, known, adapted, reservation);
  const { entries } = adapted;
  const before = entries.length;
  if (isOfReservation(fact)) adaptFactOfReservation(fact, known, entries);
  else adaptFactOfPlace(fact, known, entries);
  const hasResponse = entries.slice(before).some((entry) => 'key' in entry && entry.key === key);
  const hasPromise = known.reservations.has(reservation) || known.ticketReservations.has(reservation);
  if (key !== '' && hasPromise && !hasResponse) {
    entries.push({ kind: 'answered', journalId, no, atMs, key, answer });
  }
  return null;
}

function adaptFactOfReservation(
  fact: Parameters<typeof reservedFrom>[0],
  known: KnownRows,
  entries: JournalEntry[],
): void {
  const isNew = !known.reservations.has(fact.reservation);
  if (isNew) {
    const reserved = reservedFrom(fact);
    entries.push(reserved);
    remember(known, reserved);
  }
  const row = known.reservations.get(fact.reservation);
  if (!row || row.status === 'voided' || (!isNew && row.changedMs > fact.atMs)) return;
  const between = entriesBetween({ ...row, isNew }, fact);
  for (const entry of between) {
    if (entry.kind === 'extended') row.dueMs = entry.dueMs;
    else if (entry.kind === 'reduced') row.qty = entry.qty;
    else if (entry.kind !== 'paid_again') Object.assign(row, { status: entry.kind, changedMs: entry.atMs });
  }
  entries.push(...between);
}

function adaptFactOfPlace(fact: Acknowledged, known: KnownRows, entries: JournalEntry[]): void {
  const { journalId, no, atMs, user, reservation, of } = fact;
  if (of.kind !== 'place') return;
  adaptQueued(queuedFrom(fact, of), known, entries);
  if (of.isWaiting) return;
  for (const [place, ticket] of known.tickets) {
    if (ticket.reservation !== reservation || ticket.status !== 'waiting') continue;
    ticket.status = of.hasLeft ? 'left' : 'closed';
    const lineNo = Number(place.slice(place.indexOf('/') + 1));
    const ending = of.hasLeft ? 'left' : 'closed';
    entries.push({ kind: 'left', journalId, no, atMs, user, lineNo, ending, reason: '', trace: '' });
  }
}

/** Whether Postgres has the promise in an idempotency record. That of an operator has none. */
function hasPromiseOf({ no, answer }: EntryOf<'answered'>, known: KnownRows): boolean {
  const stored = decodeStoredRequest(answer);
  if (!stored) return true;
  const { reservationId } = stored.record;
  if (reservationId === null) return known.ticketUsers.has(`${no}/${stored.user}`);
  return known.reservations.has(reservationId) || known.ticketReservations.has(reservationId);
}

function adaptChange(entry: Change, raw: RawEntry, known: KnownRows, entries: JournalEntry[]): string | null {
  const row = known.reservations.get(entry.reservation);
  if (!row) {
    const reserved = reservationBehind(entry, raw);
    if (!reserved) return 'Postgres has no such reservation';
    entries.push(reserved);
    remember(known, reserved);
  } else {
    if (row.status === statusAfter(entry)) return null;
    if (row.status === 'voided') return 'the reservation is voided';
    if (row.changedMs > entry.atMs) return `the reservation has changed since: it is ${row.status}`;
  }
  const changed = known.reservations.get(entry.reservation);
  if (changed) Object.assign(changed, { status: statusAfter(entry), changedMs: entry.atMs });
  entries.push(entry);
  return null;
}

/** Extends a reservation, unless Postgres has this deadline already, or the reservation has ended since. */
function adaptExtended(
  entry: EntryOf<'extended'>,
  raw: RawEntry,
  known: KnownRows,
  entries: JournalEntry[],
): string | null {
  const row = known.reservations.get(entry.reservation);
  if (!row) {
    // The record has the new deadline.
    const reserved = reservationBehind(entry, raw);
    if (!reserved) return 'Postgres has no such reservation';
    entries.push(reserved);
    remember(known, reserved);
  } else if (row.status === 'reserved' && row.dueMs < entry.dueMs) {
    row.dueMs = entry.dueMs;
    entries.push(entry);
  }
  return null;
}

/**
 * Gives back units, unless Postgres has this already, or the reservation has ended since. Only paid units are refunded,
 * so a payment that Postgres lacks is added: the process that acknowledged it may be gone.
 */
function adaptReduced(
  entry: EntryOf<'reduced'>,
  raw: RawEntry,
  known: KnownRows,
  entries: JournalEntry[],
): string | null {
  const isPaid = entry.ending !== 'released';
  let row = known.reservations.get(entry.reservation);
  if (row && row.qty <= entry.qty) return null;
  // The record has the units that are left.
  const behind = !row || (isPaid && row.status !== 'redeemed') ? reservationBehind(entry, raw) : null;
  if (!row) {
    if (!behind) return 'Postgres has no such reservation';
    entries.push(behind);
    remember(known, behind);
    row = known.reservations.get(entry.reservation) as KnownReservation;
  }
  if (isPaid && behind && ['reserved', 'released', 'expired'].includes(row.status)) {
    const { journalId, no, atMs, reservation, trace } = entry;
    const paid = { kind: 'redeemed', slot: behind.slot, reacquired: row.status !== 'reserved', payment: '' } as const;
    entries.push({ ...paid, journalId, no, atMs, reservation, trace });
    Object.assign(row, { status: 'redeemed', changedMs: atMs });
  }
  if (row.status !== 'redeemed' && (isPaid || row.status !== 'reserved')) return null;
  row.qty = entry.qty;
  entries.push(entry);
  return null;
}

function adaptQueued(entry: EntryOf<'queued'>, known: KnownRows, entries: JournalEntry[]): string | null {
  if (known.ticketReservations.has(entry.reservation)) return null;
  if (known.reservations.has(entry.reservation)) return null;
  const campaign = known.campaigns.get(entry.no);
  const taken = known.tickets.has(`${entry.no}/${entry.lineNo}`);
  // Another user has taken this line number since, so the place moves to the end of the line.
  const lineNo = taken ? (campaign?.lastLineNo ?? entry.lineNo) + 1 : entry.lineNo;
  if (campaign) campaign.lastLineNo = Math.max(campaign.lastLineNo, lineNo);
  known.tickets.set(`${entry.no}/${lineNo}`, { reservation: entry.reservation, status: 'waiting' });
  known.ticketReservations.add(entry.reservation);
  known.ticketUsers.add(`${entry.no}/${entry.user}`);
  entries.push({ ...entry, lineNo });
  if (campaign?.closed) {
    known.tickets.set(`${entry.no}/${lineNo}`, { reservation: entry.reservation, status: 'closed' });
    const { no, atMs, user, trace, journalId } = entry;
    entries.push({ kind: 'left', no, atMs, user, lineNo, ending: 'closed', reason: '', trace, journalId });
  }
  return null;
}

/** Expires every reservation of the campaign whose deadline had passed at `atMs`. @param except this one stays */
function expireOverdue(no: number, atMs: number, known: KnownRows, { entries }: Adapted, except = ''): void {
  for (const [reservation, row] of known.reservations) {
    if (row.no !== no || row.status !== 'reserved' || row.dueMs === 0 || row.dueMs > atMs) continue;
    if (reservation === except) continue;
    Object.assign(row, { status: 'expired', changedMs: row.dueMs });
    entries.push({
      kind: 'expired',
      journalId: '0-0',
      no,
      atMs: row.dueMs,
      reservation,
      reason: 'deadline',
      trace: '',
    });
  }
}

function remember(known: KnownRows, entry: EntryOf<'reserved'>): void {
  const { no, reservation, state, atMs, dueMs, lineNo, qty } = entry;
  known.reservations.set(reservation, { no, status: state, burned: false, qty, changedMs: atMs, dueMs });
  const ticket = known.tickets.get(`${no}/${lineNo}`);
  if (ticket) ticket.status = 'promoted';
}

/** Decodes the changed reservation from the record that was saved with the entry; null = no record was saved. */
function reservationBehind(entry: Recorded, { fields }: RawEntry): EntryOf<'reserved'> | null {
  if (!fields.record) return null;
  const { user, qty, slot, dueMs, lineNo, orderId, code } = decodeReservation(fields.record);
  return {
    kind: 'reserved',
    journalId: entry.journalId,
    no: entry.no,
    atMs: entry.atMs,
    reservation: entry.reservation,
    user,
    order: orderId,
    qty,
    slot,
    dueMs,
    lineNo,
    state: dueMs === 0 ? 'redeemed' : 'reserved',
    code,
    terms: 0,
    key: '',
    answer: '',
    device: '',
    trace: entry.trace,
    stacking: null,
  };
}

function statusAfter(entry: Change): string {
  return entry.kind;
}

/** Decodes a recovered entry. @throws ContractError if this version does not know its format */
export function decodeRecovered(raw: RawEntry): Recovered {
  return raw.fields.kind === 'acknowledged' ? decodeAcknowledged(raw) : decodeEntry(raw);
}

/** Reads the rows that the entries refer to, and the overdue reservations of their campaigns. */
export async function readKnownRows(client: Queryable, entries: readonly Recovered[]): Promise<KnownRows> {
  const nos = [...new Set(entries.map(({ no }) => no))];
  const answers = entries.flatMap((entry) =>
    entry.kind === 'answered' ? (decodeStoredRequest(entry.answer) ?? []) : [],
  );
  const ids = [
    ...entries.flatMap((entry) => ('reservation' in entry ? [entry.reservation] : [])),
    ...answers.flatMap(({ record }) => record.reservationId ?? []),
  ];
  const lastMs = Math.max(0, ...entries.map(({ atMs }) => atMs));
  const lines = entries.flatMap((entry) =>
    'lineNo' in entry && entry.lineNo > 0 ? [{ no: entry.no, lineNo: entry.lineNo }] : [],
  );
  const reservations = await client.query<KnownReservation & { id: string }>(
    `select r.redemption_id as id, c.no, r.status, r.burned, r.qty,
       (extract(epoch from greatest(r.reserved_at, r.redeemed_at, r.released_at, r.refunded_at)) * 1000)::float8 as "changedMs",
       coalesce(extract(epoch from r.pay_before) * 1000, 0)::float8 as "dueMs"
     from redemptions r join campaigns c using (campaign_id)
     where r.redemption_id = any($1::uuid[])
       or (c.no = any($2::int[]) and r.status = 'reserved' and r.pay_before <= ms($3::bigint))`,
    [ids, nos, lastMs],
  );
  const tickets = await client.query<KnownTicket & { no: number; line_no: string; user_id: string }>(
    `select c.no, t.line_no, t.reservation_id as reservation, t.status, t.user_id
     from waiting_tickets t join campaigns c using (campaign_id)
     where c.no = any($2::int[]) and (t.reservation_id = any($1::uuid[]) or t.user_id = any($5::text[]))
       or (c.no, t.line_no) in (select * from unnest($3::int[], $4::bigint[]))`,
    [ids, nos, lines.map(({ no }) => no), lines.map(({ lineNo }) => lineNo), answers.map(({ user }) => user)],
  );
  const campaigns = await client.query<{ no: number; last: string; closed: boolean }>(
    `select c.no, c.status = 'closed' as closed,
       coalesce((select max(line_no) from waiting_tickets t where t.campaign_id = c.campaign_id), 0) as last
     from campaigns c where c.no = any($1::int[])`,
    [nos],
  );
  return {
    reservations: new Map(reservations.rows.map(({ id, ...row }) => [id, row])),
    tickets: new Map(
      tickets.rows.map(({ no, line_no, reservation, status }) => [`${no}/${line_no}`, { reservation, status }]),
    ),
    ticketReservations: new Set(tickets.rows.map(({ reservation }) => reservation)),
    ticketUsers: new Set(tickets.rows.map(({ no, user_id }) => `${no}/${user_id}`)),
    campaigns: new Map(campaigns.rows.map(({ no, last, closed }) => [no, { lastLineNo: Number(last), closed }])),
  };
}
