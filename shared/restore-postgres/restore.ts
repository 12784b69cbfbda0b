import type { Redis } from 'ioredis';
import type { ProductId } from '../domain/ids.js';
import { EngineUnavailable } from '../errors/faults.js';
import { settle } from '../ledger/compare.js';
import type { Database, Queryable } from '../postgres/pool.js';
import type { JournalCursor } from '../projection/journal-cursor.js';
import { readEpoch } from '../redis/epoch.js';
import type { EventStream } from '../redis/event-stream.js';
import type { Journal } from '../redis/journal.js';
import { compareJournalIds } from '../redis/journal-ids.js';
import { type CampaignCopy, SaleCopy } from '../sale/sale-copy.js';
import { converge, Names } from './converge.js';
import type { Findings } from './findings.js';
import { Repair } from './repair.js';
import { RestoredCampaigns } from './restored-campaigns.js';
import { RestoredRows } from './restored-rows.js';
import { scanCampaign } from './scan.js';

/** The limit between two statements of the transaction. It is long, because Redis is read in between. */
const IDLE_IN_TRANSACTION_MS = 60_000;

export type RestoreDeps = {
  redis: Redis;
  journal: Journal;
  stream: EventStream;
  database: Database;
  cursor: JournalCursor;
  /** Whether a campaign is in this shard. An interrupted move may have left a copy of another shard's. */
  has: (product: ProductId) => boolean;
};

export type RestoreOptions = {
  dryRun: boolean;
  /** How long the cursor may stay unchanged before the workers count as stopped. */
  settleMs: number;
};

/** Redis has less than Postgres, so it cannot be used to repair Postgres. */
export class RedisBehind extends Error {
  override readonly name = 'RedisBehind';
}

/**
 * Repairs Postgres from Redis after Postgres was set back, while the sale goes on. Everything is written in one
 * transaction, which holds the lock on the journal's cursor. So no worker persists meanwhile, and an interrupted repair
 * changes nothing. Nothing is voided, and rows that Redis lacks stay as they are.
 * @throws RedisBehind, EngineUnavailable
 */
export async function restorePostgres(deps: RestoreDeps, options: RestoreOptions): Promise<Findings> {
  const { redis, journal, database, cursor, has } = deps;
  if ((await readEpoch(redis)) === null) throw new EngineUnavailable('redis', 'it is empty or being filled');
  // First waits while workers persist the journal. The repair writes only what they cannot write.
  await settle({ journal, cursor }, options.settleMs);
  const copy = new SaleCopy(redis);
  const from = await journal.lastId();
  const directory = new Map([...(await copy.directory())].filter(([, product]) => has(product)));
  const suspects = new Names();
  const rows = new RestoredRows(database);
  const known = new Map((await new RestoredCampaigns(database).all()).map((row) => [row.no, row]));
  for (const [no, product] of directory) {
    const campaign = await copy.campaign(product);
    if (campaign && !campaign.archived) await scanCampaign(copy, rows, product, known.get(no) ?? null, suspects);
  }
  const unnamed: CampaignCopy[] = [];
  for (const product of await copy.displaced()) {
    if (!has(product)) continue;
    const campaign = await copy.campaign(product);
    if (campaign && directory.get(campaign.no) !== product) unnamed.push(campaign);
  }
  const findings = await database.transaction(async (client) => {
    await client.query("select set_config('idle_in_transaction_session_timeout', $1, true)", [
      String(IDLE_IN_TRANSACTION_MS),
    ]);
    const committed = await cursor.lock(client);
    await cursor.lockWrites(client);
    if (await isNewHistory(deps, client, committed)) return nothingMissing(committed);
    const picture = await converge({ copy, journal }, directory, suspects, from);
    if (compareJournalIds(picture.lastId, committed) < 0) {
      throw new RedisBehind(`Redis has the journal up to ${picture.lastId}, Postgres up to ${committed}`);
    }
    return new Repair(deps, client, directory, picture, unnamed, committed).run(options.dryRun);
  });
  if (!options.dryRun) {
    // Notifies the processes that wait for the commit, and trims the journal, as a worker does after each batch.
    await journal.announcePersisted(findings.lastId);
    await journal.trim(findings.lastId);
  }
  return findings;
}

/** Whether the history of Redis began after the last entry that Postgres has, and nothing was written in it yet. */
async function isNewHistory({ redis, journal }: RestoreDeps, client: Queryable, committed: string): Promise<boolean> {
  const [epoch, { entries, lastId }] = await Promise.all([readEpoch(redis), journal.position()]);
  if (epoch === null || entries > 0 || compareJournalIds(lastId, committed) >= 0) return false;
  const { rows } = await client.query('select 1 from journal_histories where generation = $1 and after_id = $2', [
    epoch.generation,
    committed,
  ]);
  return rows.length > 0;
}

const nothingMissing = (cursor: string): Findings => ({
  cursor,
  lastId: cursor,
  backlog: 0,
  gap: false,
  campaigns: [],
  renumberedEvents: null,
});
