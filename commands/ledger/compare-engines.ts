import type { EngineUrls } from '../../shared/config/config.js';
import { LIMITS } from '../../shared/config/limits.js';
import type { Verdict } from '../../shared/contracts/verdict.js';
import { compareCampaign } from '../../shared/image/compare-campaign.js';
import { CampaignsTable } from '../../shared/postgres/campaigns.js';
import type { Database } from '../../shared/postgres/pool.js';
import { ReadReplica } from '../../shared/postgres/read-replica.js';
import { connectDatabase } from '../command.js';
import { CommandShards } from '../command-shards.js';
import { ledgerDeps } from './ledger-deps.js';
import { type Source, whereCovered } from './where-covered.js';

const STATEMENT_MS = 60_000;
/** How long the replica may need for what the primary has now. */
const REPLICA_WAIT_MS = 15_000;

/**
 * Compares Redis, journal and Postgres of one campaign, on connections of its own.
 * @param warn called with the reason when the primary is read although there is a replica
 * @throws Error when they cannot be compared
 */
export async function compareEngines(
  urls: EngineUrls,
  product: string,
  warn: (reason: string) => void,
): Promise<Verdict & Source['read']> {
  const opened: (Database | CommandShards)[] = [];
  const connect: Connect = (url, statementMs = STATEMENT_MS) => {
    const database = connectDatabase('ledger', url, statementMs, 3);
    opened.push(database);
    return database;
  };
  const compare = async (database: Database) => {
    const shards = await CommandShards.of(urls.redis, database, { commandMs: STATEMENT_MS });
    opened.push(shards);
    const campaign = await new CampaignsTable(database).find(product);
    if (!campaign) throw new Error(`there is no campaign for ${product}`);
    return compareCampaign(await ledgerDeps(database, shards, campaign), campaign);
  };
  try {
    return await whereCovered(await sourcesOf(urls, connect, warn), compare, warn);
  } finally {
    await Promise.all(opened.map((one) => one.close()));
  }
}

type Connect = (url: string, statementMs?: number) => Database;

/** The databases whose rows may be compared, in their order. The second one is read where the first one stops. */
async function sourcesOf(
  { databaseUrl, databaseReadUrl }: EngineUrls,
  connect: Connect,
  warn: (reason: string) => void,
): Promise<Source[]> {
  const primary = connect(databaseUrl);
  if (databaseReadUrl === null) return [{ database: primary, read: {} }];
  const replica = connect(databaseReadUrl);
  const limits = { replicaWaitMs: REPLICA_WAIT_MS, replicaAwayMs: 0 };
  const asked = connect(databaseReadUrl, LIMITS.postgres.statementMs);
  const { source, asOf } = await new ReadReplica(primary, asked, limits, warn).current();
  const ofPrimary = { database: primary, read: { read_from: 'primary', as_of: asOf } };
  if (source === 'primary') return [ofPrimary];
  return [{ database: replica, read: { read_from: source, as_of: asOf } }, ofPrimary];
}
