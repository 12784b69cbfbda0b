import { ContractError } from '../errors/faults.js';
import { Batch } from '../postgres/batch.js';
import { isRefusal, type Queryable } from '../postgres/pool.js';
import { markEndedPlaces } from '../postgres/push-subscriptions.js';
import { answerOwner } from '../postgres/snapshot.js';
import { insertRedemptions } from './new-redemptions.js';
import type { NewTicket, Projection, RedemptionChange, TicketChange } from './projection.js';
import { addToBuckets, moveIn, moveOut, sealBuckets } from './write-buckets.js';
import { insertHistory } from './write-history.js';
import { writeReductions } from './write-reductions.js';

/** A change of a reservation that is not in Postgres: the entry that made the reservation is missing. */
export class UnknownReservations extends Error {
  override readonly name = 'UnknownReservations';
  constructor(readonly reservations: readonly string[]) {
    super(`no row for ${reservations.slice(0, 5).join(', ')}${reservations.length > 5 ? ' …' : ''}`);
  }
}

/** A change of a campaign that is not in Postgres. */
export class UnknownCampaigns extends Error {
  override readonly name = 'UnknownCampaigns';
  constructor(readonly numbers: readonly number[]) {
    super(`no campaign has the number ${numbers.join(', ')}`);
  }
}

/** Whether Postgres does not take a batch because of one of its entries. */
export function isRefusedBatch(error: unknown): error is Error {
  return (
    isRefusal(error) ||
    error instanceof UnknownReservations ||
    error instanceof UnknownCampaigns ||
    error instanceof ContractError
  );
}

/** Does a part of a transaction. @returns what Postgres refused, of which nothing remains */
export async function unlessRefused<Result>(client: Queryable, work: () => Promise<Result>): Promise<Result | Error> {
  await client.query('savepoint part');
  try {
    const result = await work();
    await client.query('release savepoint part');
    return result;
  } catch (error) {
    if (!isRefusedBatch(error)) throw error;
    await client.query('rollback to savepoint part');
    return error;
  }
}

/**
 * Writes a folded batch in the caller's transaction, with one statement for each table. Reservations that end are
 * written before those that begin, so that a unit which passed from one user to another within the batch never counts
 * twice against the cap. For the same reason units arrive in a bucket first, and leave it last. Places are written
 * before the reservations of their users, because a trigger computes how long each user waited.
 * @throws pg.DatabaseError of class 23 when a row breaks the cap, an allowance or a reference
 * @returns whether every reservation of the batch is new
 * @throws UnknownReservations, UnknownCampaigns when the row of a change does not exist
 * @throws TransferNotOut when units arrive that have not left
 */
export async function writeProjection(client: Queryable, batch: Projection): Promise<boolean> {
  await assertCampaigns(client, batch);
  const raised = [...batch.added].filter(([, units]) => units > 0);
  const lowered = [...batch.added].filter(([, units]) => units < 0);
  await addUnits(client, raised);
  await addToBuckets(
    client,
    batch.addedTo.filter(({ units }) => units > 0),
  );
  await moveIn(client, batch.movedIn);
  // First, because a late payment in the same batch may have taken the units.
  await writeReductions(client, batch.redemptionChanges, 'changed');
  await changeRedemptions(client, batch.redemptionChanges);
  await changeTickets(client, batch.ticketChanges);
  await insertTickets(client, batch.newTickets);
  const inserted = await insertRedemptions(client, batch.newRedemptions);
  await writeReductions(client, batch.newRedemptions, 'made');
  const kept = await keepFurtherPayments(client, batch.furtherPayments);
  await closeLines(client, [...batch.closedLines]);
  if (batch.revokedPlaces.length > 0) await markEndedPlaces(client, batch.revokedPlaces);
  await addUnits(client, lowered);
  await addToBuckets(
    client,
    batch.addedTo.filter(({ units }) => units < 0),
  );
  await moveOut(client, batch.movedOut);
  await sealBuckets(client, batch.sealed);
  await setStatuses(client, [...batch.statuses]);
  await setBeginnings(client, [...batch.begun]);
  await insertAnswers(client, batch.answers);
  await insertAudit(client, batch.audit);
  // A payment that was restated in a recovery may be known already.
  await insertHistory(
    client,
    batch.history.filter(
      ({ kind, reservation, detail }) => kind !== 'paid_again' || kept.has(`${reservation} ${detail?.payment_ref}`),
    ),
  );
  return inserted === batch.newRedemptions.length;
}

const CHANGES = new Batch({
  ...{ no: 'int', reservation: 'uuid', status: 'text', slot: 'int', burned: 'boolean', reacquired: 'boolean' },
  ...{ redeemedMs: 'bigint', releasedMs: 'bigint', refundedMs: 'bigint', reason: 'text', payment: 'text' },
  ...{ extendedToMs: 'bigint' },
});

/** A voided row stays voided, even if a later entry changes the reservation. */
async function changeRedemptions(client: Queryable, changes: readonly RedemptionChange[]): Promise<void> {
  if (changes.length === 0) return;
  const { rows } = await client.query<{ id: string }>(
    `with change as (
       select n.*, c.campaign_id from ${CHANGES.sql} left join campaigns c on c.no = n.no
     ), changed as (
       update redemptions r set
         status = coalesce(c.status, r.status), slot = coalesce(c.slot, r.slot), burned = coalesce(c.burned, r.burned),
         reacquired = coalesce(c.reacquired, r.reacquired), redeemed_at = coalesce(ms(c.redeemedMs), r.redeemed_at),
         released_at = coalesce(ms(c.releasedMs), r.released_at), refunded_at = coalesce(ms(c.refundedMs), r.refunded_at),
         reason = coalesce(c.reason, r.reason), payment_ref = coalesce(c.payment, r.payment_ref),
         pay_before = coalesce(ms(c.extendedToMs), r.pay_before), extended = r.extended or c.extendedToMs is not null,
         burned_qty = case when c.status = 'voided' then 0 else r.burned_qty end
       from change c where r.campaign_id = c.campaign_id and r.redemption_id = c.reservation and r.status <> 'voided'
       returning r.redemption_id
     )
     select c.reservation as id from change c
     where not exists (select 1 from redemptions r where r.campaign_id = c.campaign_id and r.redemption_id = c.reservation)`,
    CHANGES.of(changes),
  );
  if (rows.length > 0) throw new UnknownReservations(rows.map(({ id }) => id));
}

const PAYMENTS = new Batch({ no: 'int', reservation: 'uuid', payment: 'text', atMs: 'bigint' });

/**
 * Stores payments after the first one. The first reference that arrives is stored with the reservation. Every other
 * reference is stored separately, whatever the state of the reservation.
 * @returns those that were not known, as `<reservation> <payment>`
 */
async function keepFurtherPayments(
  client: Queryable,
  payments: Projection['furtherPayments'],
): Promise<ReadonlySet<string>> {
  if (payments.length === 0) return new Set();
  const values = PAYMENTS.of(payments);
  const given = `(select n.*, c.campaign_id from ${PAYMENTS.numbered} left join campaigns c on c.no = n.no) n`;
  const itsRow = 'r.campaign_id = n.campaign_id and r.redemption_id = n.reservation';
  const first = await client.query<{ id: string; payment: string }>(
    `update redemptions r set payment_ref = n.payment
     from (select distinct on (reservation) reservation, campaign_id, payment from ${given} order by reservation, position) n
     where ${itsRow} and r.payment_ref is null returning n.reservation as id, n.payment`,
    values,
  );
  const further = await client.query<{ id: string; payment: string }>(
    `insert into duplicate_payments (reservation_id, payment_ref, campaign_id, paid_at)
     select n.reservation, n.payment, r.campaign_id, ms(n.atMs) from ${given} join redemptions r on ${itsRow}
     where r.payment_ref is distinct from n.payment order by n.position
     on conflict (reservation_id, payment_ref) do nothing returning reservation_id as id, payment_ref as payment`,
    values,
  );
  const { rows } = await client.query<{ id: string }>(
    `select n.reservation as id from ${given} where not exists (select 1 from redemptions r where ${itsRow})`,
    values,
  );
  if (rows.length > 0) throw new UnknownReservations(rows.map(({ id }) => id));
  return new Set([...first.rows, ...further.rows].map(({ id, payment }) => `${id} ${payment}`));
}

const TICKETS = new Batch({
  ...{ no: 'int', lineNo: 'bigint', user: 'text', qty: 'int', status: 'text', reservation: 'uuid', order: 'text' },
  ...{ atMs: 'bigint', endedMs: 'bigint', device: 'text', key: 'text', answer: 'text', trace: 'text', code: 'int' },
  ...{ stacking: 'text', metadata: 'jsonb' },
});

async function insertTickets(client: Queryable, tickets: readonly NewTicket[]): Promise<void> {
  if (tickets.length === 0) return;
  await client.query(
    `insert into waiting_tickets (campaign_id, line_no, user_id, qty, status, reservation_id, order_id, joined_at, ended_at,
       device_fp, idempotency_key, idempotency_answer, trace, code_no, stacking, metadata)
     select c.campaign_id, n.lineNo, n."user", n.qty, n.status, n.reservation, n."order", ms(n.atMs), ms(n.endedMs),
       n.device, n.key, n.answer, n.trace, n.code, n.stacking, n.metadata
     from ${TICKETS.sql} left join campaigns c on c.no = n.no
     on conflict (campaign_id, line_no) do nothing`,
    TICKETS.ofSparse(tickets),
  );
}

const TICKET_CHANGES = new Batch({ no: 'int', lineNo: 'bigint', status: 'text', endedMs: 'bigint' });

async function changeTickets(client: Queryable, changes: readonly TicketChange[]): Promise<void> {
  if (changes.length === 0) return;
  await client.query(
    `update waiting_tickets t set status = n.status, ended_at = ms(n.endedMs)
     from ${TICKET_CHANGES.sql} join campaigns c on c.no = n.no
     where t.campaign_id = c.campaign_id and t.line_no = n.lineNo`,
    TICKET_CHANGES.of(changes),
  );
}

/**
 * Adds the difference instead of writing the total of Redis, because a voided unit may be missing in the total of Redis
 * but not in this one.
 */
async function addUnits(client: Queryable, added: readonly [number, number][]): Promise<void> {
  if (added.length === 0) return;
  await client.query(
    `update campaigns c set total_limit = c.total_limit + n.units, updated_at = now()
     from unnest($1::int[], $2::bigint[]) as n(no, units) where c.no = n.no`,
    [added.map(([no]) => no), added.map(([, units]) => units)],
  );
}

/** Moves `starts_at` of a sale that was opened before its start time. */
async function setBeginnings(client: Queryable, begun: readonly [number, number][]): Promise<void> {
  if (begun.length === 0) return;
  await client.query(
    `update campaigns c set starts_at = least(c.starts_at, ms(n.at))
     from unnest($1::int[], $2::bigint[]) as n(no, at) where c.no = n.no`,
    [begun.map(([no]) => no), begun.map(([, atMs]) => atMs)],
  );
}

const ANSWERS = new Batch({ no: 'int', key: 'text', answer: 'text', atMs: 'bigint' });

/** The primary key contains campaign, user and key, because two users, or two shards, may have the same key. */
async function insertAnswers(client: Queryable, rows: Projection['answers']): Promise<void> {
  if (rows.length === 0) return;
  await client.query(
    `insert into remembered_answers (campaign_id, idempotency_key, answer, made_at)
     select c.campaign_id, ${answerOwner('n.answer')} || '|' || n.key, n.answer, ms(n.atMs)
     from ${ANSWERS.sql} join campaigns c on c.no = n.no
     on conflict (campaign_id, idempotency_key) do nothing`,
    ANSWERS.of(rows),
  );
}

/**
 * Checks that the campaigns exist. The statements join their changes with the campaign, so changes of an unknown
 * campaign would be lost silently.
 */
async function assertCampaigns(client: Queryable, batch: Projection): Promise<void> {
  const changed = new Set([
    ...batch.added.keys(),
    ...batch.statuses.keys(),
    ...batch.ticketChanges.map(({ no }) => no),
    ...batch.closedLines.keys(),
    ...batch.answers.map(({ no }) => no),
    ...[...batch.sealed, ...batch.movedOut, ...batch.movedIn].map(({ no }) => no),
  ]);
  if (changed.size === 0) return;
  const { rows } = await client.query<{ no: number }>(
    `select n.no from unnest($1::int[]) as n(no) where not exists (select 1 from campaigns c where c.no = n.no)`,
    [[...changed]],
  );
  if (rows.length > 0) throw new UnknownCampaigns(rows.map(({ no }) => no));
}

/**
 * Writes statuses. Closing a campaign ends its line: the script removed the line, so one statement here ends the
 * tickets.
 */
async function setStatuses(client: Queryable, statuses: readonly [number, string][]): Promise<void> {
  if (statuses.length === 0) return;
  await client.query(
    `update campaigns c set status = n.status, updated_at = now()
     from unnest($1::int[], $2::text[]) as n(no, status) where c.no = n.no`,
    [statuses.map(([no]) => no), statuses.map(([, status]) => status)],
  );
  const closed = statuses.filter(([, status]) => status === 'closed').map(([no]) => no);
  if (closed.length === 0) return;
  await client.query(
    `update waiting_tickets t set status = 'closed', ended_at = now()
     from campaigns c where c.no = any($1::int[]) and t.campaign_id = c.campaign_id and t.status = 'waiting'`,
    [closed],
  );
}

const LINES = new Batch({ no: 'int', upTo: 'bigint', atMs: 'bigint', bucket: 'int' });

/** Ends the tickets that still wait in closed lines, including tickets of the same batch. */
async function closeLines(
  client: Queryable,
  lines: readonly [number, { upTo: number; atMs: number; bucket: number }][],
): Promise<void> {
  if (lines.length === 0) return;
  await client.query(
    `update waiting_tickets t set status = 'closed', ended_at = ms(n.atMs)
     from ${LINES.sql} join campaigns c on c.no = n.no
     where t.campaign_id = c.campaign_id and t.status = 'waiting' and t.line_no <= n.upTo
       and (c.buckets = 1 or redemption_bucket(t.reservation_id) = n.bucket)`,
    LINES.of(lines.map(([no, line]) => ({ no, ...line }))),
  );
}

const AUDIT = new Batch({
  ...{ atMs: 'bigint', actor: 'text', action: 'text', no: 'int', before: 'jsonb', after: 'jsonb', request: 'text' },
});

async function insertAudit(client: Queryable, rows: Projection['audit']): Promise<void> {
  if (rows.length === 0) return;
  const texts = rows.map((row) => ({
    ...row,
    before: row.before && JSON.stringify(row.before),
    after: JSON.stringify(row.after),
  }));
  await client.query(
    `insert into audit_log (at, actor, action, campaign_id, before, after, request_id, chain)
     select ms(n.atMs), n.actor, n.action, c.campaign_id, n.before, n.after, nullif(n.request, ''), 'journal'
     from ${AUDIT.numbered} join campaigns c on c.no = n.no order by n.position`,
    AUDIT.of(texts),
  );
}
