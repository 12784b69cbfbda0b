import type { EntryOf, JournalEntry, RawEntry } from '../../shared/contracts/journal.js';
import type { RedemptionStatus } from '../../shared/domain/reservation.js';
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
  status: RedemptionStatus;
  burned: boolean;
  reacquired: boolean;
  qty: number;
  reduced: Reduced;
  changedMs: number;
  dueMs: number;
  /** Whether the deadline was extended. */
  extended: boolean;
};
/** A place in line in Postgres. */
type KnownTicket = { no: number; lineNo: number; reservation: string; user: string; status: string };

/** The rows in Postgres that a chunk of entries refers to, and what the entries that are added make of them. */
export class KnownRows {
  readonly reservations = new Map<string, KnownReservation>();
  readonly tickets: KnownTicket[] = [];
  /** Campaign number → the highest line number, and whether it is closed. */
  readonly campaigns = new Map<number, { lastLineNo: number; closed: boolean }>();
  /** Reservation → the time until which it holds its units, by the facts about it (`addHolds`). */
  readonly heldUntil = new Map<string, number>();
  /** Journal ids of restocks whose key has a response: their repetition was counted. */
  readonly repeatedRestocks = new Set<string>();

  /** Whether Postgres has the reservation, or the place from which it is made. */
  hasPromise(reservation: string): boolean {
    return this.reservations.has(reservation) || this.tickets.some((ticket) => ticket.reservation === reservation);
  }

  isVoided(reservation: string): boolean {
    return this.reservations.get(reservation)?.status === 'voided';
  }

  place(no: number, lineNo: number): KnownTicket | undefined {
    return this.tickets.find((ticket) => ticket.no === no && ticket.lineNo === lineNo);
  }

  /** Takes over what an entry makes of the rows. */
  follow(entry: JournalEntry): void {
    switch (entry.kind) {
      case 'reserved': {
        this.reservations.set(entry.reservation, rowOf(entry));
        const ticket = this.place(entry.no, entry.lineNo);
        if (ticket) ticket.status = 'promoted';
        break;
      }
      case 'queued': {
        const { no, lineNo, reservation, user } = entry;
        this.tickets.push({ no, lineNo, reservation, user, status: 'waiting' });
        const campaign = this.campaigns.get(no);
        if (campaign) campaign.lastLineNo = Math.max(campaign.lastLineNo, lineNo);
        break;
      }
      case 'left': {
        const ticket = this.place(entry.no, entry.lineNo);
        if (ticket) ticket.status = entry.ending;
        break;
      }
      default:
        if ('reservation' in entry) Object.assign(this.reservations.get(entry.reservation) ?? {}, changeBy(entry));
    }
  }
}

function rowOf({ no, state, atMs, dueMs, qty }: EntryOf<'reserved'>): KnownReservation {
  const row = { no, status: state, qty, reduced: unreduced, changedMs: atMs, dueMs };
  return { ...row, burned: false, reacquired: false, extended: false };
}

/** What an entry changes in the row of its reservation. */
function changeBy(entry: JournalEntry): Partial<KnownReservation> {
  const { kind, atMs: changedMs } = entry;
  switch (kind) {
    case 'extended':
      return { dueMs: entry.dueMs, extended: true };
    case 'reduced': {
      const { qty, released, refunded, burned } = entry;
      return { qty, reduced: { released, refunded, burned } };
    }
    case 'redeemed':
      return { status: kind, reacquired: entry.reacquired, changedMs };
    case 'refunded':
      return { status: kind, burned: entry.burned, changedMs };
    case 'released':
    case 'expired':
    case 'voided':
      return { status: kind, changedMs };
    default:
      return {};
  }
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
  const campaigns = await client.query<{ id: string; no: number; lastLineNo: number; closed: boolean }>(
    `select c.campaign_id as id, c.no, c.status = 'closed' as closed,
       coalesce((select max(line_no) from waiting_tickets t where t.campaign_id = c.campaign_id), 0)::float8 as "lastLineNo"
     from campaigns c where c.no = any($1::int[])`,
    [nos],
  );
  // Ids of campaigns instead of a condition on their numbers: otherwise Postgres reads the rows of all campaigns.
  const campaignIds = campaigns.rows.map(({ id }) => id);
  const reservations = await client.query<KnownReservation & { id: string }>(
    `select r.redemption_id as id, c.no, r.status, r.burned, r.reacquired, r.qty, r.extended,
       json_build_object('released', r.released_qty, 'refunded', r.refunded_qty, 'burned', r.burned_qty) as reduced,
       (extract(epoch from greatest(r.reserved_at, r.redeemed_at, r.released_at, r.refunded_at)) * 1000)::float8 as "changedMs",
       coalesce(extract(epoch from r.pay_before) * 1000, 0)::float8 as "dueMs"
     from (select * from redemptions where redemption_id = any($1::uuid[]) union all
           select * from redemptions where campaign_id = any($2::uuid[]) and status = 'reserved' and pay_before <= ms($3::bigint)) r
       join campaigns c using (campaign_id)`,
    [ids, campaignIds, lastMs],
  );
  const tickets = await client.query<KnownTicket>(
    `select c.no, t.line_no::float8 as "lineNo", t.reservation_id as reservation, t.user_id as "user", t.status
     from waiting_tickets t join campaigns c using (campaign_id)
     where t.campaign_id = any($2::uuid[]) and (t.reservation_id = any($1::uuid[]) or t.user_id = any($5::text[])
       or (c.no, t.line_no) in (select * from unnest($3::int[], $4::bigint[])))`,
    [ids, campaignIds, lines.map(({ no }) => no), lines.map(({ lineNo }) => lineNo), answers.map(({ user }) => user)],
  );
  const known = new KnownRows();
  for (const { id, ...row } of reservations.rows) known.reservations.set(id, row);
  known.tickets.push(...tickets.rows);
  for (const { no, lastLineNo, closed } of campaigns.rows) known.campaigns.set(no, { lastLineNo, closed });
  const facts = await recovered.factsAbout(client, [...ids, ...known.reservations.keys()]);
  addHolds(
    known.heldUntil,
    facts.flatMap((raw) => decodedOrNull(raw) ?? []),
  );
  for (const id of await repeatedRestocks(client, entries, recovered)) known.repeatedRestocks.add(id);
  return known;
}

/** Redis had lost the key of a restock, so a repetition with this key was counted before the entry was saved. */
async function repeatedRestocks(
  client: Queryable,
  entries: readonly Recovered[],
  recovered: Pick<RecoveredEntries, 'recordsOf'>,
): Promise<string[]> {
  const ids = entries.flatMap(({ kind, journalId }) => (kind === 'restocked' ? [journalId] : []));
  const records = (await recovered.recordsOf(client, ids)).flatMap((raw) => {
    const entry = decodedOrNull(raw);
    return entry?.kind === 'answered' ? [entry] : [];
  });
  if (records.length === 0) return [];
  const { rows } = await client.query<{ answer: string }>(
    `select n.answer from unnest($1::int[], $2::text[], $3::text[]) as n(no, key, answer) join campaigns c on c.no = n.no
       join remembered_answers m on m.campaign_id = c.campaign_id and m.idempotency_key = ${answerOwner('n.answer')} || '|' || n.key`,
    [records.map(({ no }) => no), records.map(({ key }) => key), records.map(({ answer }) => answer)],
  );
  return rows.map(({ answer }) => answer.slice(answer.lastIndexOf('|') + 1));
}
