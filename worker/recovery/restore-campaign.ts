import { recordOf, type SeatedPerson, withReservation, withTicket } from '../../shared/archive/records.js';
import { isDerivedFingerprint } from '../../shared/domain/device.js';
import { type OrderId, orderIdOf, type UserId } from '../../shared/domain/ids.js';
import type { Log } from '../../shared/observability/log.js';
import type { StoredCampaign } from '../../shared/postgres/campaigns.js';
import type { Database } from '../../shared/postgres/pool.js';
import { CampaignSnapshot, type SnapshotOrder, type SnapshotTicket } from '../../shared/postgres/snapshot.js';
import { RequestNames } from '../../shared/redis/request-names.js';
import type { KnownCounters } from '../../shared/sale/campaigns.js';
import { type ReservationRecord, takesUnits } from '../../shared/sale/reservation-record.js';
import type { SaleStore } from '../../shared/sale/sale-store.js';
import { CampaignRestore, type OrderClaim } from './campaign-restore.js';
import { RedisFill } from './redis-fill.js';

/** Rows in one round trip. They take about 2 ms in Redis and a megabyte of memory. */
const BATCH_ROWS = 2_000;

export type RestoreDeps = { database: Database; sale: SaleStore; log: Log; idempotencyTtlMs: number };

/**
 * Fills Redis with one campaign from Postgres. A closed campaign without held units is restored as archived. For any
 * other campaign it writes the reservations with their deadlines, the record of each user, the line in order, the
 * orders of codes, the idempotency records, and last the counters, which put the campaign into service again.
 * @param nowMs by the clock of Redis
 * @param token the one with which this worker has begun to fill Redis
 * @throws FencedOut when another worker has begun to fill Redis since
 */
export async function restoreCampaign(
  deps: RestoreDeps,
  campaign: StoredCampaign,
  nowMs: number,
  token: string,
): Promise<void> {
  const began = performance.now();
  const snapshot = new CampaignSnapshot(deps.database, campaign.id);
  const restore = new CampaignRestore(
    new RedisFill(deps.sale.scripts),
    token,
    campaign.productId,
    campaign.waitingRoom.presenceSeconds === null ? null : nowMs,
  );
  const people = new Map<string, SeatedPerson>();
  const known: KnownCounters = { held: 0, redeemed: 0, burned: 0, waiting: 0, lastLineNo: 0 };
  let reservations = 0;

  const names = new RequestNames(deps.sale.scripts.redis);
  const remember = async (rows: readonly Answered[]) => {
    const some = stillRemembered(rows, deps.idempotencyTtlMs, nowMs);
    await restore.answers(some);
    await names.keep(some, deps.idempotencyTtlMs);
  };

  await restore.clear();
  const { orderMemoryMs } = deps.sale.limits;
  for await (const rows of snapshot.orders(BATCH_ROWS, nowMs - orderMemoryMs)) {
    await restore.orders(rows.flatMap((row) => claimOf(row, nowMs - orderMemoryMs)));
  }
  if (campaign.status === 'closed' && campaign.held === 0) {
    if (campaign.codes > 0) for await (const codes of snapshot.usedCodes(BATCH_ROWS)) await restore.codes(codes);
    // A closed campaign cannot be restocked, so all of its restocks are older than its last change.
    const mayRemember = campaign.updatedAt.getTime() > nowMs - deps.idempotencyTtlMs;
    if (mayRemember) await remember(await snapshot.restocks());
    await loadArchived(deps.sale, campaign, nowMs, token);
    return;
  }
  for await (const rows of snapshot.reservations(BATCH_ROWS)) {
    reservations += rows.length;
    const records = new Map<string, ReservationRecord>();
    for (const row of rows) {
      const record = recordOf(row);
      records.set(row.id, record);
      count(known, record);
      people.set(row.user, withReservation(people.get(row.user), row));
    }
    await restore.reservations(records);
    await restore.payments(rows.flatMap(({ id, payments }) => (payments.length > 0 ? [[id, payments] as const] : [])));
    await restore.codes([...records.values()].flatMap(({ state, code }) => (code && takesUnits(state) ? [code] : [])));
    await remember(rows.map((row) => ({ ...row, madeMs: row.reservedMs })));
  }
  const closed = campaign.status === 'closed';
  for await (const tickets of snapshot.tickets(BATCH_ROWS)) {
    for (const ticket of tickets) {
      known.lastLineNo = Math.max(known.lastLineNo, ticket.lineNo);
      if (ticket.status === 'waiting') known.waiting += 1;
      const person = withTicket(people.get(ticket.user), ticket, closed);
      if (person) people.set(ticket.user, person);
    }
    await restore.holders(tickets.flatMap(holderOf));
    await remember(tickets.map((ticket) => ({ ...ticket, madeMs: ticket.joinedMs })));
  }
  for await (const rows of snapshot.answers(BATCH_ROWS)) await remember(rows);
  const entries = [...people];
  for (let start = 0; start < entries.length; start += BATCH_ROWS) {
    const some = entries.slice(start, start + BATCH_ROWS);
    await restore.people(some);
    // The code that a user waits with, or waited with until the campaign closed.
    await restore.codes(some.flatMap(([, { state, code }]) => (state === 'queued' && code ? [code] : [])));
  }
  if (closed) known.waiting = 0;
  await deps.sale.campaigns.load(campaign, known, null, token);
  const seconds = Math.round(performance.now() - began) / 1000;
  if (reservations > 0 || known.waiting > 0) {
    deps.log.info(
      { campaign: campaign.productId, reservations, waiting: known.waiting, seconds },
      'restored from Postgres',
    );
  }
}

/** The device that may use a new idempotency key for the same user's place (lua/reserve.lua). */
function holderOf({
  status,
  user,
  lineNo,
  device,
}: SnapshotTicket): { user: string; lineNo: number; device: string }[] {
  if (status !== 'waiting' || device === null || isDerivedFingerprint(device)) return [];
  return [{ user, lineNo, device }];
}

type Answered = { user: string; key: string | null; answer: string | null; madeMs: number };

/** The claim of a reservation on its order; empty when the claim would have expired in Redis. */
function claimOf({ reservation, user, order, stacking, claimedMs }: SnapshotOrder, sinceMs: number): OrderClaim[] {
  const ttlMs = Math.round(claimedMs - sinceMs);
  if (ttlMs <= 0) return [];
  return [{ reservation, user: user as UserId, order: (order ?? orderIdOf(reservation)) as OrderId, stacking, ttlMs }];
}

function stillRemembered(
  rows: readonly Answered[],
  idempotencyTtlMs: number,
  nowMs: number,
): { user: string; key: string; answer: string; ttlMs: number }[] {
  return rows.flatMap(({ user, key, answer, madeMs }) => {
    const ttlMs = Math.round(madeMs + idempotencyTtlMs - nowMs);
    return key && answer && ttlMs > 0 ? [{ user, key, answer, ttlMs }] : [];
  });
}

/** Loads only the counters of a campaign that is over. A user who returns to it is recalled. */
async function loadArchived(sale: SaleStore, campaign: StoredCampaign, nowMs: number, token: string): Promise<void> {
  const { redeemed, burned, reservations } = campaign;
  // No user can join its line any more, so `waiting` and `lastLineNo` are 0. The pass is named by the time, because
  // promises that the APIs saved are in Postgres without an entry in the journal.
  const archived = { pass: `restored@${Math.round(nowMs)}`, promised: reservations };
  await sale.campaigns.load(campaign, { held: 0, redeemed, burned, waiting: 0, lastLineNo: 0 }, archived, token);
}

function count(known: KnownCounters, { state, qty, lineNo }: ReservationRecord): void {
  known.lastLineNo = Math.max(known.lastLineNo, lineNo);
  if (state === 'reserved') known.held += qty;
  else if (state === 'redeemed' || state === 'reacquired') known.redeemed += qty;
  else if (state === 'burned') known.burned += qty;
}
