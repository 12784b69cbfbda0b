import type { RawEntry } from '../../shared/contracts/journal.js';
import { ACTORS } from '../../shared/domain/actors.js';
import type { Log } from '../../shared/observability/log.js';
import type { Metrics } from '../../shared/observability/metrics.js';
import type { History } from '../../shared/postgres/journal-histories.js';
import { constraintOf, type Database, isRefusal, type Queryable } from '../../shared/postgres/pool.js';
import type { RecoveredEntries } from '../../shared/postgres/recovered-entries.js';
import type { RedemptionsTable } from '../../shared/postgres/redemptions.js';
import { withCampaignTotals } from '../../shared/projection/campaign-totals.js';
import { eventsOf, rejectedEvent, voidedEvent } from '../../shared/projection/events-of-entries.js';
import type { JournalCursor } from '../../shared/projection/journal-cursor.js';
import { insertEvents } from '../../shared/projection/new-events.js';
import { projectEntries } from '../../shared/projection/projection.js';
import { insertHistory, voidedRow } from '../../shared/projection/write-history.js';
import { isRefusedBatch, unlessRefused, writeProjection } from '../../shared/projection/write-projection.js';
import { compareJournalIds, generationOf, isOfShard } from '../../shared/redis/journal-ids.js';
import { isOfReservation, reservedFrom } from './adapt-acknowledged.js';
import { type Adapted, adaptEntries } from './adapt-recovered.js';
import { decodedOrNull, decodeRecovered, type Recovered, readKnownRows } from './known-rows.js';

/**
 * Entries in one transaction, which takes some hundred milliseconds. It reads all rows of its campaigns, because no
 * index has their deadlines: 0.5 s for a million, so smaller chunks would take longer.
 */
const CHUNK = 4_000;
/**
 * A refused chunk is halved down to this many entries, which are then applied one by one in one transaction. So few
 * refusals cost a few chunks, and many cost some milliseconds each.
 */
const FEW = 16;

export type ApplyRecoveredDeps = {
  database: Database;
  recovered: RecoveredEntries;
  cursor: JournalCursor;
  redemptions: Pick<RedemptionsTable, 'void' | 'voidExisting'>;
  metrics: Metrics;
  log: Log;
};

/** Where a history begins: `afterId` is the last entry of earlier histories that it contains. */
export type Beginning = Pick<History, 'generation' | 'afterId'>;

/** Numbers of the campaigns that were changed, and how many entries were applied and rejected. */
export type Applied = { campaigns: Set<number>; applied: number; rejected: number };

/**
 * Applies to Postgres the entries that Redis lost, in the order of the journal and in chunks, each entry once. Postgres
 * may have part of their effects, or later changes, so each entry is adapted to the existing rows (adapt-recovered.ts).
 * The cap and the allowances hold as always. An entry that cannot be applied becomes a voided row or a row of
 * `journal_rejects`, with an event.
 * @param histories those that went into service, and the one that begins now. An entry that all later histories contain
 *   is not missing
 * @param moved campaign number → the other shard that has the campaign. Its recovery applies the entries
 */
export async function applyRecovered(
  deps: ApplyRecoveredDeps,
  histories: readonly Beginning[],
  moved: ReadonlyMap<number, number>,
): Promise<Applied> {
  const total: Applied = { campaigns: new Set(), applied: 0, rejected: 0 };
  let size = CHUNK;
  for (;;) {
    let chunk = await applyChunk(deps, histories, moved, size);
    if (chunk.kind === 'none') break;
    if (chunk.kind === 'refused') {
      const { refused } = chunk;
      if (refused.length > FEW) {
        size = Math.floor(refused.length / 2);
        continue;
      }
      chunk = await applyOneByOne(deps, refused);
    }
    for (const no of chunk.campaigns) total.campaigns.add(no);
    total.applied += chunk.applied;
    total.rejected += chunk.rejected;
    size = Math.min(CHUNK, size * 2);
  }
  deps.metrics.recovered.inc({ outcome: 'applied' }, total.applied);
  deps.metrics.recovered.inc({ outcome: 'rejected' }, total.rejected);
  return total;
}

type AppliedChunk = { kind: 'applied'; campaigns: number[]; applied: number; rejected: number };
type Chunk = { kind: 'none' } | { kind: 'refused'; refused: readonly RawEntry[] } | AppliedChunk;

async function applyChunk(
  deps: ApplyRecoveredDeps,
  histories: readonly Beginning[],
  moved: ReadonlyMap<number, number>,
  size: number,
): Promise<Chunk> {
  let raws: RawEntry[] = [];
  try {
    return await deps.database.transaction(async (client) => {
      await deps.cursor.lock(client);
      const pending = await deps.recovered.pending(client, size);
      if (pending.length === 0) return { kind: 'none' };
      const { shard } = deps.recovered;
      const contained = pending.filter(({ journalId }) => isContained(journalId, shard, histories));
      await deps.recovered.markApplied(client, contained);
      const missing = pending.filter((raw) => !contained.includes(raw));
      raws = await giveMoved(deps, client, missing, moved);
      await deps.cursor.lockWrites(client);
      return await writeChunk(deps, client, raws);
    });
  } catch (error) {
    if (!isRefusedBatch(error)) throw error;
    return { kind: 'refused', refused: raws };
  }
}

/** Gives the entries of campaigns that have moved to the recovery of their shard. @returns the others */
async function giveMoved(
  { recovered, log }: ApplyRecoveredDeps,
  client: Queryable,
  raws: readonly RawEntry[],
  moved: ReadonlyMap<number, number>,
): Promise<RawEntry[]> {
  const shardOf = ({ fields }: RawEntry) => moved.get(Number(fields.no));
  for (const shard of new Set(moved.values())) {
    const given = raws.filter((raw) => shardOf(raw) === shard);
    if (given.length === 0) continue;
    await recovered.give(client, given, shard);
    log.warn({ entries: given.length, to: shard }, 'saved entries were given to the shard of their campaigns');
  }
  return raws.filter((raw) => shardOf(raw) === undefined);
}

async function writeChunk(
  deps: ApplyRecoveredDeps,
  client: Queryable,
  raws: readonly RawEntry[],
): Promise<AppliedChunk> {
  const decoded = raws.map(decodeRecovered);
  const known = await readKnownRows(client, decoded, deps.recovered);
  const adapted: Adapted = adaptEntries(raws, decoded, known);
  const entries = await withCampaignTotals(client, adapted.entries);
  await writeProjection(client, projectEntries(entries));
  await insertEvents(client, eventsOf(entries));
  for (const { raw, reason } of adapted.rejected) await reject(deps, client, raw, reason);
  await deps.recovered.markApplied(client, raws);
  return {
    kind: 'applied',
    campaigns: decoded.map(({ no }) => no),
    applied: raws.length - adapted.rejected.length,
    rejected: adapted.rejected.length,
  };
}

/**
 * Applies each entry alone. If Postgres rejects it, its reservation is voided; any other entry is stored for an
 * operator.
 */
async function applyOneByOne(deps: ApplyRecoveredDeps, raws: readonly RawEntry[]): Promise<AppliedChunk> {
  // The lock waits for the commit of operators' open changes, whose terms may allow an entry.
  await deps.database.query('select 1 from campaigns where no = any($1) order by no for no key update', [
    raws.flatMap((raw) => decodedOrNull(raw)?.no ?? []),
  ]);
  return deps.database.transaction(async (client) => {
    await deps.cursor.lock(client);
    await deps.cursor.lockWrites(client);
    const total: AppliedChunk = { kind: 'applied', campaigns: [], applied: 0, rejected: 0 };
    for (const raw of raws) {
      const { campaigns, applied, rejected } = await applyAlone(deps, client, raw);
      total.campaigns.push(...campaigns);
      total.applied += applied;
      total.rejected += rejected;
    }
    return total;
  });
}

async function applyAlone(deps: ApplyRecoveredDeps, client: Queryable, raw: RawEntry): Promise<AppliedChunk> {
  const written = await unlessRefused(client, () => writeChunk(deps, client, [raw]));
  if (!(written instanceof Error)) return written;
  const reason = isRefusal(written) ? (constraintOf(written) ?? written.message) : written.message;
  const entry = decodedOrNull(raw);
  const isVoided =
    entry !== null &&
    isRefusal(written) &&
    (await unlessRefused(client, () => voidReservation(deps, client, entry, reason))) === true;
  if (!isVoided) await reject(deps, client, raw, reason);
  await deps.recovered.markApplied(client, [raw]);
  return { kind: 'applied', campaigns: entry ? [entry.no] : [], applied: 0, rejected: 1 };
}

/** @returns whether the entry was about a reservation that could be voided */
async function voidReservation(
  { redemptions, metrics, log }: ApplyRecoveredDeps,
  client: Queryable,
  entry: Recovered,
  reason: string,
): Promise<boolean> {
  if (entry.kind === 'reserved') await redemptions.void(client, entry, reason);
  else if (entry.kind === 'acknowledged') {
    if (!isOfReservation(entry)) return false;
    await redemptions.void(client, reservedFrom(entry), reason);
  } else if (entry.kind === 'redeemed') await redemptions.voidExisting(client, entry.reservation, reason);
  else return false;
  await insertEvents(client, [voidedEvent(entry.no, entry.reservation, reason)]);
  await insertHistory(client, [voidedRow(entry, ACTORS.recovery, reason)]);
  metrics.voided.inc({ constraint: reason });
  log.error(
    { reservation: entry.reservation, constraint: reason },
    'Postgres rejected a reservation that Redis had lost; it was voided',
  );
  return true;
}

async function reject(
  { cursor, metrics, log }: ApplyRecoveredDeps,
  client: Queryable,
  raw: RawEntry,
  reason: string,
): Promise<void> {
  await cursor.reject(client, raw, `recovered: ${reason}`);
  await insertEvents(client, [rejectedEvent(raw, reason)]);
  metrics.rejected.inc();
  log.error(
    { journal_id: raw.journalId, kind: raw.fields.kind, reason },
    'a journal entry that Redis had lost was rejected; see journal_rejects',
  );
}

/**
 * Whether every later history of this shard contains the entry, so that it was persisted from the journal. Such an
 * entry was saved because of a history that never went into service. An entry that another shard gave to this one is in
 * no history of this one.
 */
export function isContained(journalId: string, shard: number, histories: readonly Beginning[]): boolean {
  const own = generationOf(journalId);
  if (!isOfShard(journalId, shard)) return false;
  return histories.every(({ generation, afterId }) => generation <= own || compareJournalIds(journalId, afterId) <= 0);
}
