import type { Log } from '../../shared/observability/log.js';
import type { StoredCampaign } from '../../shared/postgres/campaigns.js';
import type { Database } from '../../shared/postgres/pool.js';
import { CampaignSnapshot, type SnapshotReservation, type SnapshotTicket } from '../../shared/postgres/snapshot.js';
import { type RecordState, type ReservationRecord, takesUnits } from '../../shared/redis/reservation-record.js';
import { CampaignRestore, type PersonRecord } from '../../shared/redis/restore.js';
import type { KnownCounters, SaleStore } from '../../shared/redis/sale-store.js';

/** Rows in one round trip: about 2 ms of Redis and a megabyte of memory. */
const BATCH_ROWS = 2_000;

export type RestoreParts = { database: Database; sale: SaleStore; log: Log; idempotencyTtlMs: number };

/**
 * Fills Redis with one campaign from Postgres: reservations with their deadlines, what each user holds, the line in its
 * order, the remembered answers, and last the counters, with which the campaign is in service again.
 * @param nowMs by Redis
 */
export async function restoreCampaign(parts: RestoreParts, campaign: StoredCampaign, nowMs: number): Promise<void> {
  const began = performance.now();
  const snapshot = new CampaignSnapshot(parts.database, campaign.id);
  const restore = new CampaignRestore(
    parts.sale.scripts.redis,
    campaign.productId,
    campaign.waitingRoom.presenceSeconds === null ? null : nowMs,
  );
  const people = new Map<string, PersonRecord & { sinceMs: number }>();
  const known: KnownCounters = { held: 0, redeemed: 0, burned: 0, waiting: 0, lastLineNo: 0 };
  let reservations = 0;

  const remember = (rows: readonly { key: string | null; answer: string | null; madeMs: number }[]) =>
    restore.answers(
      rows.flatMap(({ key, answer, madeMs }) => {
        const ttlMs = Math.round(madeMs + parts.idempotencyTtlMs - nowMs);
        return key && answer && ttlMs > 0 ? [{ key, answer, ttlMs }] : [];
      }),
    );

  await restore.clear();
  for await (const rows of snapshot.reservations(BATCH_ROWS)) {
    reservations += rows.length;
    const records = new Map<string, ReservationRecord>();
    for (const row of rows) {
      const record = recordOf(row);
      records.set(row.id, record);
      count(known, record);
      seat(people, row, record);
    }
    await restore.reservations(records);
    await restore.codes([...records.values()].flatMap(({ state, code }) => (code && takesUnits(state) ? [code] : [])));
    await remember(rows.map((row) => ({ ...row, madeMs: row.reservedMs })));
  }
  // A line that ended with its campaign keeps its codes, since no script frees them.
  const keepsCode = ({ status }: SnapshotTicket) =>
    status === 'waiting' || (status === 'closed' && campaign.status === 'closed');
  for await (const tickets of snapshot.tickets(BATCH_ROWS)) {
    for (const ticket of tickets) {
      known.lastLineNo = Math.max(known.lastLineNo, ticket.lineNo);
      const person = people.get(ticket.user);
      const waits = ticket.status === 'waiting';
      if (waits) known.waiting += 1;
      // Promoted: the reservation speaks for him. Left or closed: unless something came later.
      if (ticket.status === 'promoted' || (!waits && person && person.sinceMs >= ticket.joinedMs)) continue;
      people.set(ticket.user, {
        state: waits || ticket.status === 'closed' ? 'queued' : 'left',
        inLine: waits,
        slots: person?.slots ?? [],
        lineNo: ticket.lineNo,
        qty: ticket.qty,
        reservationId: ticket.reservation,
        orderId: ticket.order ?? '',
        code: keepsCode(ticket) ? ticket.code : null,
        sinceMs: ticket.joinedMs,
      });
    }
    await restore.codes(tickets.flatMap((ticket) => (ticket.code && keepsCode(ticket) ? [ticket.code] : [])));
    await remember(tickets.map((ticket) => ({ ...ticket, madeMs: ticket.joinedMs })));
  }
  for await (const rows of snapshot.answers(BATCH_ROWS)) await remember(rows);
  const entries = [...people];
  for (let start = 0; start < entries.length; start += BATCH_ROWS) {
    await restore.people(entries.slice(start, start + BATCH_ROWS));
  }
  if (campaign.status === 'closed') known.waiting = 0;
  await parts.sale.load(campaign, known);
  const seconds = Math.round(performance.now() - began) / 1000;
  if (reservations > 0 || known.waiting > 0) {
    parts.log.info(
      { campaign: campaign.productId, reservations, waiting: known.waiting, seconds },
      'restored from Postgres',
    );
  }
}

function recordOf(row: SnapshotReservation): ReservationRecord {
  const state: RecordState = row.burned
    ? 'burned'
    : row.status === 'redeemed' && row.reacquired
      ? 'reacquired'
      : row.status;
  return {
    state,
    user: row.user,
    qty: row.qty,
    slot: row.slot,
    dueMs: row.dueMs,
    lineNo: row.lineNo,
    orderId: row.order,
    code: row.code,
  };
}

function count(known: KnownCounters, { state, qty, lineNo }: ReservationRecord): void {
  known.lastLineNo = Math.max(known.lastLineNo, lineNo);
  if (state === 'reserved') known.held += qty;
  else if (state === 'redeemed' || state === 'reacquired') known.redeemed += qty;
  else if (state === 'burned') known.burned += qty;
}

/** A user's record follows his latest reservation; his allowances are those of all that are active. */
function seat(
  people: Map<string, PersonRecord & { sinceMs: number }>,
  row: SnapshotReservation,
  { state }: ReservationRecord,
): void {
  const person = people.get(row.user);
  const active = state === 'reserved' || state === 'redeemed' || state === 'reacquired' || state === 'burned';
  const slots = [...(person?.slots ?? []), ...(active ? [row.slot] : [])];
  if (person && person.sinceMs > row.reservedMs) {
    person.slots = slots;
    return;
  }
  people.set(row.user, {
    state: 'held',
    inLine: false,
    slots,
    lineNo: row.lineNo,
    qty: row.qty,
    reservationId: row.id,
    orderId: '',
    code: row.code,
    sinceMs: row.reservedMs,
  });
}
