import { bucketOfReservation, bucketOfResponse, homeCodes } from '../../shared/domain/buckets.js';
import { type BucketPart, FORMER_KEPT, type FormerVersion } from '../../shared/domain/campaign.js';
import { type OrderId, orderIdOf, type UserId } from '../../shared/domain/ids.js';
import { type DerivedRecords, deriveUsers, recordOf } from '../../shared/image/derive.js';
import type { Log } from '../../shared/observability/log.js';
import { ArchivedPeople } from '../../shared/postgres/archived-people.js';
import { CampaignBuckets } from '../../shared/postgres/campaign-buckets.js';
import { formerVersions } from '../../shared/postgres/campaign-terms.js';
import type { CampaignsTable, StoredCampaign } from '../../shared/postgres/campaigns.js';
import type { Database } from '../../shared/postgres/pool.js';
import { CampaignSnapshot, type SnapshotOrder, type UserRows } from '../../shared/postgres/snapshot.js';
import type { JournalCursor } from '../../shared/projection/journal-cursor.js';
import { RequestNames } from '../../shared/redis/request-names.js';
import type { KnownCounters } from '../../shared/sale/campaigns.js';
import { LOST, passOfFill } from '../../shared/sale/recall.js';
import { takesUnits } from '../../shared/sale/reservation-record.js';
import type { SaleStore } from '../../shared/sale/sale-store.js';
import { CampaignRestore, type OrderClaim } from './campaign-restore.js';
import { RedisFill } from './redis-fill.js';

/** Rows in one round trip. They take about 2 ms in Redis and a megabyte of memory. */
const BATCH_ROWS = 2_000;
/** Campaigns that are filled at a time. A small one takes some twenty round trips and little else. */
const FILLED_AT_ONCE = 4;

/** The bucket of a divided campaign that this shard has, with its counters in Postgres. */
type RestoredPart = Awaited<ReturnType<CampaignBuckets['part']>>;
/** Returns null for a campaign that is not divided. */
export type BucketPartOf = (campaign: StoredCampaign) => Promise<RestoredPart | null>;

export type RestoreDeps = {
  database: Database;
  /** Of the shard that is filled. */
  cursor: Pick<JournalCursor, 'shard'>;
  /** Undefined = no campaign is divided. */
  partOf?: BucketPartOf;
  /** Without a gate: it fills Redis while the gate rejects all other calls. */
  sale: SaleStore;
  log: Log;
  idempotencyTtlMs: number;
};

/**
 * Fills Redis with campaigns from Postgres, several at a time. Returns or throws when no write is under way.
 * @param token the one with which this worker has begun to fill Redis
 * @throws FencedOut @throws LockLost
 */
export async function restoreCampaigns(
  deps: RestoreDeps & { campaigns: CampaignsTable; nowMs: () => Promise<number> },
  campaigns: readonly StoredCampaign[],
  token: string,
  assertHeld: () => void,
): Promise<void> {
  const now = await deps.nowMs();
  const waiting = [...campaigns];
  const fillWaiting = async () => {
    for (let next = waiting.shift(); next; next = waiting.shift()) {
      assertHeld();
      // Read again, because the drain may have changed the status and the total.
      const newest = await deps.campaigns.find(next.productId);
      if (newest) await restoreCampaign(deps, newest, now, token);
    }
  };
  const fillers = Array.from({ length: FILLED_AT_ONCE }, () =>
    fillWaiting().catch((error) => {
      waiting.length = 0;
      throw error;
    }),
  );
  const failed = (await Promise.allSettled(fillers)).find(({ status }) => status === 'rejected');
  if (failed) throw (failed as PromiseRejectedResult).reason;
}

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
  const part = (await deps.partOf?.(campaign)) ?? null;
  const own = ownRows(campaign, part);
  const former = await formerVersions(deps.database, campaign, FORMER_KEPT);
  const known: KnownCounters = { held: 0, redeemed: 0, burned: 0, waiting: 0, lastLineNo: 0 };
  let reservations = 0;

  const names = new RequestNames(deps.sale.scripts.redis);
  const remember = async (rows: readonly Answered[]) => {
    const some = stillRemembered(rows, deps.idempotencyTtlMs, nowMs);
    await restore.answers(some);
    await names.keep(
      some.map((one) => ({ ...one, no: campaign.no })),
      deps.idempotencyTtlMs,
    );
  };

  await restore.clear();
  if (part && campaign.type === 'pool') await restoreOwnCodes(deps, restore, campaign, part.part);
  const { orderMemoryMs } = deps.sale.limits;
  for await (const rows of snapshot.orders(BATCH_ROWS, nowMs - orderMemoryMs)) {
    await restore.orders(rows.filter(own.reservation).flatMap((row) => claimOf(row, nowMs - orderMemoryMs)));
  }
  if (campaign.status === 'closed' && campaign.held === 0) {
    if (campaign.codes > 0) for await (const codes of snapshot.usedCodes(BATCH_ROWS)) await restore.codes(codes);
    // A closed campaign cannot be restocked, so all of its restocks are older than its last change.
    const mayRemember = campaign.updatedAt.getTime() > nowMs - deps.idempotencyTtlMs;
    if (mayRemember) await remember((await snapshot.restocks()).filter(own.answer));
    await loadArchived(deps, campaign, { part, former }, nowMs, token);
    return;
  }
  const closed = campaign.status === 'closed';
  for await (const users of snapshot.users(BATCH_ROWS)) {
    const derived = deriveUsers(users.map(own.rows), { closed });
    reservations += derived.reservations.size;
    addTo(known, derived.counters);
    await restore.reservations(derived.reservations);
    await restore.payments(derived.payments);
    await restore.people(derived.people);
    await restore.holders(derived.holders);
    // In a bucket, those of the other buckets too: after a failure one of them may use a code of this bucket.
    await restore.codes(part ? [...derived.codes, ...takenCodes(users)] : derived.codes);
    await remember(derived.answers);
  }
  for await (const rows of snapshot.answers(BATCH_ROWS)) await remember(rows.filter(own.answer));
  // Bucket 0 draws the numbers of the whole line.
  if (part?.part.bucket === 0) known.lastLineNo = Math.max(known.lastLineNo, part.lastLineNo);
  await deps.sale.campaigns.load(campaign, known, null, token, part?.part ?? null, former);
  const seconds = Math.round(performance.now() - began) / 1000;
  if (reservations > 0 || known.waiting > 0) {
    deps.log.info(
      { campaign: campaign.productId, reservations, waiting: known.waiting, seconds },
      'restored from Postgres',
    );
  }
}

/** Writes which codes of a pool this bucket may give. */
async function restoreOwnCodes(
  { database }: RestoreDeps,
  restore: CampaignRestore,
  { id, codes, buckets }: StoredCampaign,
  part: BucketPart,
): Promise<void> {
  const moved = await new CampaignBuckets(database).movedCodes(id, part.bucket);
  await restore.ownCodes(part.bucket, buckets, codes, moved);
  part.ownCodes = homeCodes(codes, part.bucket, buckets) + moved.gained.length - moved.given.length;
}

/** Which rows of a campaign are in this shard: all, or those of its bucket. Records of operators are in bucket 0. */
function ownRows({ buckets }: StoredCampaign, part: RestoredPart | null) {
  const bucket = part?.part.bucket ?? null;
  const isOwn = (reservation: string) => bucket === null || bucketOfReservation(reservation) === bucket;
  return {
    reservation: ({ reservation }: { reservation: string }) => isOwn(reservation),
    rows: ({ user, reservations, tickets }: UserRows): UserRows => ({
      user,
      reservations: reservations.filter(({ id }) => isOwn(id)),
      tickets: tickets.filter(({ reservation }) => isOwn(reservation)),
    }),
    answer: ({ user }: { user: string }) => bucket === null || bucketOfResponse(user, buckets) === bucket,
  };
}

/** The codes that reservations use. */
function takenCodes(users: readonly UserRows[]): number[] {
  const records = users.flatMap(({ reservations }) => reservations.map(recordOf));
  return records.flatMap(({ state, code }) => (code && takesUnits(state) ? [code] : []));
}

type Answered = DerivedRecords['answers'][number];

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
): { user: string; key: string; answer: string; atMs: number; ttlMs: number }[] {
  return rows.flatMap(({ user, key, answer, madeMs }) => {
    const ttlMs = Math.round(madeMs + idempotencyTtlMs - nowMs);
    return key && answer && ttlMs > 0 ? [{ user, key, answer, atMs: madeMs, ttlMs }] : [];
  });
}

/** Loads only the counters of a campaign that is over. A user who returns to it is recalled. */
async function loadArchived(
  { sale, database, cursor }: Pick<RestoreDeps, 'sale' | 'database' | 'cursor'>,
  campaign: StoredCampaign,
  { part, former }: { part: RestoredPart | null; former: readonly FormerVersion[] },
  nowMs: number,
  token: string,
): Promise<void> {
  const people = new ArchivedPeople(database);
  const { redeemed, burned, reservations } = part?.counters ?? campaign;
  // No user can join its line any more, so `waiting` and `lastLineNo` are 0. The pass is named by the time too, because
  // promises that the APIs saved are in Postgres without an entry in the journal.
  const pass = campaign.recordsLost ? LOST : passOfFill(await people.committed(cursor.shard), nowMs);
  const archived = { pass, promised: reservations };
  const known = { held: 0, redeemed, burned, waiting: 0, lastLineNo: 0 };
  await sale.campaigns.load(campaign, known, archived, token, part?.part ?? null, former);
}

function addTo(known: KnownCounters, page: KnownCounters): void {
  for (const name of ['held', 'redeemed', 'burned', 'waiting'] as const) known[name] += page[name];
  known.lastLineNo = Math.max(known.lastLineNo, page.lastLineNo);
}
