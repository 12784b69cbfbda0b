import type { EntryOf, JournalEntry, RawEntry } from '../../shared/contracts/journal.js';
import type { Queryable } from '../../shared/postgres/pool.js';
import type { RecoveredEntries } from '../../shared/postgres/recovered-entries.js';
import { answerOwner } from '../../shared/postgres/snapshot.js';
import { decodeStoredRequest } from '../../shared/redis/idempotency-record.js';
import { decodeEntry } from '../../shared/redis/journal-entries.js';
import { type Acknowledged, decodeAcknowledged } from '../../shared/sale/acknowledged.js';
import { type Reduced, unreduced } from '../../shared/sale/reservation-record.js';

/** An entry of the journal, or a promise that a response acknowledged again. */
export type Recovered = JournalEntry | Acknowledged;

/** Row of a reservation in Postgres. `changedMs`: when it last changed. `dueMs`: 0 = nothing to pay. */
export type KnownReservation = {
  no: number;
  status: string;
  burned: boolean;
  reacquired: boolean;
  qty: number;
  reduced: Reduced;
  changedMs: number;
  dueMs: number;
  /** Whether the deadline was extended. */
  extended: boolean;
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
  /** Reservation → the time until which it holds its units, by the facts about it (`addHolds`). */
  heldUntil: Map<string, number>;
  /** Journal ids of restocks whose key has a response: their repetition was counted. */
  repeatedRestocks: Set<string>;
};

export function remember(known: KnownRows, entry: EntryOf<'reserved'>): void {
  const { no, reservation, state, atMs, dueMs, lineNo, qty } = entry;
  known.reservations.set(reservation, {
    no,
    status: state,
    burned: false,
    reacquired: false,
    qty,
    reduced: unreduced,
    changedMs: atMs,
    dueMs,
    extended: false,
  });
  const ticket = known.tickets.get(`${no}/${lineNo}`);
  if (ticket) ticket.status = 'promoted';
}

const sumsOf = ({ released, refunded, burned }: EntryOf<'reduced'>): Reduced => ({ released, refunded, burned });

/** Writes a change of a reservation into its row. */
export function follow(row: KnownReservation, entry: JournalEntry): void {
  if (entry.kind === 'extended') Object.assign(row, { dueMs: entry.dueMs, extended: true });
  else if (entry.kind === 'reduced') Object.assign(row, { qty: entry.qty, reduced: sumsOf(entry) });
  else if (entry.kind === 'redeemed')
    Object.assign(row, { status: 'redeemed', reacquired: entry.reacquired, changedMs: entry.atMs });
  else if (entry.kind === 'refunded')
    Object.assign(row, { status: 'refunded', burned: entry.burned, changedMs: entry.atMs });
  else if (entry.kind !== 'paid_again') Object.assign(row, { status: entry.kind, changedMs: entry.atMs });
}

/**
 * Adds until when the facts say that their reservations hold units: a paid one without end, so that no entry before the
 * fact expires it. A refunded one has returned its units, which an entry before the fact may use.
 */
export function addHolds(heldUntil: Map<string, number>, entries: readonly Recovered[]): void {
  for (const entry of entries) {
    if (entry.kind !== 'acknowledged' || entry.of.kind !== 'reservation') continue;
    const { state, dueMs } = entry.of.record;
    const isPaid = state === 'redeemed' || state === 'burned';
    const until = isPaid ? Number.POSITIVE_INFINITY : state === 'reserved' ? dueMs : 0;
    heldUntil.set(entry.reservation, Math.max(until, heldUntil.get(entry.reservation) ?? 0));
  }
}

/** Decodes a recovered entry. @throws ContractError if this version does not know its format */
export function decodeRecovered(raw: RawEntry): Recovered {
  return raw.fields.kind === 'acknowledged' ? decodeAcknowledged(raw) : decodeEntry(raw);
}

/** Does the same; null instead of the error. */
export function decodedOrNull(raw: RawEntry): Recovered | null {
  try {
    return decodeRecovered(raw);
  } catch {
    return null;
  }
}

/**
 * Reads the rows that the entries refer to, the overdue reservations of their campaigns, and the pending facts about
 * all of them.
 */
export async function readKnownRows(
  client: Queryable,
  entries: readonly Recovered[],
  recovered: Pick<RecoveredEntries, 'factsAbout' | 'recordsOf'>,
): Promise<KnownRows> {
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
    `select r.redemption_id as id, c.no, r.status, r.burned, r.reacquired, r.qty, r.extended,
       json_build_object('released', r.released_qty, 'refunded', r.refunded_qty, 'burned', r.burned_qty) as reduced,
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
  const heldUntil = new Map<string, number>();
  const facts = await recovered.factsAbout(client, [...ids, ...reservations.rows.map(({ id }) => id)]);
  addHolds(
    heldUntil,
    facts.flatMap((raw) => decodedOrNull(raw) ?? []),
  );
  return {
    reservations: new Map(reservations.rows.map(({ id, ...row }) => [id, row])),
    tickets: new Map(
      tickets.rows.map(({ no, line_no, reservation, status }) => [`${no}/${line_no}`, { reservation, status }]),
    ),
    ticketReservations: new Set(tickets.rows.map(({ reservation }) => reservation)),
    ticketUsers: new Set(tickets.rows.map(({ no, user_id }) => `${no}/${user_id}`)),
    campaigns: new Map(campaigns.rows.map(({ no, last, closed }) => [no, { lastLineNo: Number(last), closed }])),
    heldUntil,
    repeatedRestocks: await repeatedRestocks(client, entries, recovered),
  };
}

/** Redis had lost the key of a restock, so a repetition with this key was counted before the entry was saved. */
async function repeatedRestocks(
  client: Queryable,
  entries: readonly Recovered[],
  recovered: Pick<RecoveredEntries, 'recordsOf'>,
): Promise<Set<string>> {
  const ids = entries.flatMap(({ kind, journalId }) => (kind === 'restocked' ? [journalId] : []));
  const records = (await recovered.recordsOf(client, ids)).flatMap((raw) => {
    const entry = decodedOrNull(raw);
    return entry?.kind === 'answered' ? [entry] : [];
  });
  if (records.length === 0) return new Set();
  const { rows } = await client.query<{ answer: string }>(
    `select n.answer from unnest($1::int[], $2::text[], $3::text[]) as n(no, key, answer) join campaigns c on c.no = n.no
       join remembered_answers m on m.campaign_id = c.campaign_id and m.idempotency_key = ${answerOwner('n.answer')} || '|' || n.key`,
    [records.map(({ no }) => no), records.map(({ key }) => key), records.map(({ answer }) => answer)],
  );
  return new Set(rows.map(({ answer }) => answer.slice(answer.lastIndexOf('|') + 1)));
}
