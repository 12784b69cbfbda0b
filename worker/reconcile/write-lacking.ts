import type { Difference } from '../../shared/contracts/verdict.js';
import { bucketOfReservation } from '../../shared/domain/buckets.js';
import type { ProductId } from '../../shared/domain/ids.js';
import type { PartDeps } from '../../shared/image/campaign-part.js';
import { isPlace } from '../../shared/image/compare.js';
import { JournalTail, Uncovered } from '../../shared/image/journal-tail.js';
import { emptyPage, PostgresWriter } from '../../shared/image/postgres-writer.js';
import type { Log } from '../../shared/observability/log.js';
import { JournalHistories } from '../../shared/postgres/journal-histories.js';
import { constraintOf, type Database, isRefusal } from '../../shared/postgres/pool.js';
import { type CampaignCopy, SaleCopy } from '../../shared/sale/sale-copy.js';

export type WriteDeps = {
  database: Database;
  log: Log;
  /** By the clock of Redis. */
  nowMs: () => number;
};

/**
 * Writes to Postgres what it lacks of some reservations that Redis has: rows, later states, units that were given back.
 * Each has a transaction of its own, which locks the cursor of its shard and compares again, so nothing is written
 * twice, and nothing over a gap of the journal. What Postgres refuses stays a difference.
 * @param parts of the campaign, by bucket
 * @returns how many reservations were written
 * @throws Uncovered, EngineUnavailable
 */
export async function writeLacking(
  deps: WriteDeps,
  parts: readonly PartDeps[],
  product: ProductId,
  differences: readonly Difference[],
): Promise<number> {
  const lacking = differences.filter((one) => one.reservation !== null && one.redis !== null && !isPlace(one));
  let written = 0;
  for (const [bucket, part] of parts.entries()) {
    const isOwn = (id: string) => parts.length === 1 || bucketOfReservation(id) === bucket;
    // Those that Postgres has come first: they end, which makes room for others.
    const idsOf = (isMissing: boolean) =>
      lacking.flatMap(({ reservation: id, postgres }) =>
        id && isOwn(id) && (postgres === null) === isMissing ? [id] : [],
      );
    written += await writeToShard(deps, part, product, [...idsOf(false), ...idsOf(true)]);
  }
  return written;
}

async function writeToShard(deps: WriteDeps, part: PartDeps, product: ProductId, ids: readonly string[]) {
  if (ids.length === 0) return 0;
  const { redis } = part.sale.scripts;
  const at = await part.cursor.read();
  const read = await new SaleCopy(redis).campaigns([product]);
  const [campaign] = read.value;
  if (!campaign) return 0;
  const writer = new PostgresWriter(redis, part.cursor);
  const tail = new JournalTail(part.journal, campaign.no, new JournalHistories(deps.database, part.cursor.shard));
  // Reads the backlog before the cursor is locked.
  await tail.cover(at, read);
  let written = 0;
  for (const id of ids) if (await writeOne(deps, { part, campaign, writer, tail }, id)) written += 1;
  if (written > 0)
    await writer.fillAnswers(deps.database, [campaign.no], (client) => part.cursor.lock(client), deps.nowMs());
  return written;
}

type Shard = { part: PartDeps; campaign: CampaignCopy; writer: PostgresWriter; tail: JournalTail };

/** @returns whether Postgres lacked something */
async function writeOne(
  { database, log, nowMs }: WriteDeps,
  { part, campaign, writer, tail }: Shard,
  id: string,
): Promise<boolean> {
  try {
    return await database.transaction(async (client) => {
      const { cursor, generation } = await part.cursor.lockWithHistory(client);
      const [found] = await writer.compare(client, campaign.product, [id], async (read) => {
        const covered = read.generation === generation ? await tail.cover(cursor, read) : null;
        if (!covered) throw new Uncovered(cursor, read);
        return covered;
      });
      if (!found?.record || found.step === 'nothing' || found.step === 'left_alone') return false;
      const { record, row, hasMark } = found;
      const payments = found.payments.map((payment) => ({ reservation: id, payment }));
      const page = { ...emptyPage(), changes: [{ id, record, row, hasMark }], payments };
      await writer.write(client, campaign, page, nowMs());
      return true;
    });
  } catch (error) {
    if (!isRefusal(error)) throw error;
    const details = { constraint: constraintOf(error), reason: error.message };
    log.error({ campaign: campaign.product, reservation: id, ...details }, 'Postgres lacks a promise and refuses it');
    return false;
  }
}
