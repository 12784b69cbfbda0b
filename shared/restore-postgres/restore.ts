import type { Redis } from 'ioredis';
import { EngineUnavailable } from '../errors/faults.js';
import { settle } from '../ledger/compare.js';
import type { Database } from '../postgres/pool.js';
import type { JournalCursor } from '../projection/journal-cursor.js';
import { readEpoch } from '../redis/epoch.js';
import type { EventStream } from '../redis/event-stream.js';
import type { Journal } from '../redis/journal.js';
import { compareJournalIds } from '../redis/journal-ids.js';
import { type CampaignCopy, SaleCopy } from '../sale/sale-copy.js';
import { BATCH } from './chunks.js';
import { converge, Names } from './converge.js';
import type { Findings } from './findings.js';
import { Repair } from './repair.js';
import { RestoredCampaigns } from './restored-campaigns.js';
import { RestoredRows } from './restored-rows.js';
import { scanCampaign } from './scan.js';

/** Redis is read between two statements of the transaction. */
const IDLE_IN_TRANSACTION_MS = 60_000;

export type RestoreDeps = {
  redis: Redis;
  journal: Journal;
  stream: EventStream;
  database: Database;
  cursor: JournalCursor;
};

export type RestoreOptions = {
  dryRun: boolean;
  /** How long the journal may stand still before it is taken for stopped. */
  settleMs: number;
};

/** Redis has less than Postgres, so Postgres cannot be made whole from it. */
export class RedisBehind extends Error {
  override readonly name = 'RedisBehind';
}

/**
 * Makes Postgres whole from Redis after Postgres was set back, while the sale goes on. Everything is written in one
 * transaction, which holds the cursor of the journal: no worker persists meanwhile, and a repair that is interrupted has
 * changed nothing. Nothing is voided, and rows that Redis does not know are left alone.
 * @throws RedisBehind, EngineUnavailable
 */
export async function restorePostgres(deps: RestoreDeps, options: RestoreOptions): Promise<Findings> {
  const { redis, journal, database, cursor } = deps;
  if ((await readEpoch(redis)) === null) throw new EngineUnavailable('redis', 'it is empty or being filled');
  // A journal that moves is written by the workers; only what they cannot write is left to this.
  await settle({ journal, cursor }, options.settleMs);
  const copy = new SaleCopy(redis);
  const from = await journal.lastId();
  const directory = new Map(await copy.directory());
  const suspects = new Names();
  const rows = new RestoredRows(database);
  const known = new Map((await new RestoredCampaigns(database).all()).map((row) => [row.no, row]));
  for (const [no, product] of directory) {
    const campaign = await copy.campaign(product);
    if (campaign && !campaign.archived) await scanCampaign(copy, rows, product, known.get(no) ?? null, suspects);
  }
  const unnamed: CampaignCopy[] = [];
  const named = new Set(directory.values());
  for (const product of await copy.products(BATCH)) {
    const campaign = named.has(product) ? null : await copy.campaign(product);
    if (campaign && directory.get(campaign.no) !== product) unnamed.push(campaign);
  }
  const findings = await database.transaction(async (client) => {
    await client.query("select set_config('idle_in_transaction_session_timeout', $1, true)", [
      String(IDLE_IN_TRANSACTION_MS),
    ]);
    const committed = await cursor.lock(client);
    const picture = await converge({ copy, journal }, directory, suspects, from);
    if (compareJournalIds(picture.lastId, committed) < 0) {
      throw new RedisBehind(`Redis has the journal up to ${picture.lastId}, Postgres up to ${committed}`);
    }
    return new Repair(deps, client, directory, picture, unnamed, committed).run(options.dryRun);
  });
  if (!options.dryRun) {
    // As a worker does after each batch: it notifies those who wait for the commit, and frees the journal.
    await journal.announcePersisted(findings.lastId);
    await journal.trim(findings.lastId);
  }
  return findings;
}
