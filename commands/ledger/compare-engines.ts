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
  const comparison = new Comparison(urls, product, warn);
  try {
    return await whereCovered(await comparison.sources(), (database) => comparison.of(database), warn);
  } finally {
    await comparison.close();
  }
}

class Comparison {
  readonly #databases: Database[] = [];
  readonly #opened: CommandShards[] = [];

  constructor(
    readonly urls: EngineUrls,
    readonly product: string,
    readonly warn: (reason: string) => void,
  ) {}

  /** The databases whose rows may be compared, in their order. The second one is read where the first one stops. */
  async sources(): Promise<Source[]> {
    const { databaseUrl, databaseReadUrl } = this.urls;
    const primary = this.#connect(databaseUrl);
    if (databaseReadUrl === null) return [{ database: primary, read: {} }];
    const replica = this.#connect(databaseReadUrl);
    const limits = { replicaWaitMs: REPLICA_WAIT_MS, replicaAwayMs: 0 };
    const asked = this.#connect(databaseReadUrl, LIMITS.postgresStatementMs);
    const { source, asOf } = await new ReadReplica(primary, asked, limits, this.warn).current();
    const ofPrimary = { database: primary, read: { read_from: 'primary', as_of: asOf } };
    if (source === 'primary') return [ofPrimary];
    return [{ database: replica, read: { read_from: source, as_of: asOf } }, ofPrimary];
  }

  async of(database: Database): Promise<Verdict> {
    const limits = { commandMs: STATEMENT_MS, connectMs: LIMITS.commandConnectMs };
    const shards = await CommandShards.of(this.urls.redis, database, limits);
    this.#opened.push(shards);
    const campaign = await new CampaignsTable(database).find(this.product);
    if (!campaign) throw new Error(`there is no campaign for ${this.product}`);
    return compareCampaign(await ledgerDeps(database, shards, campaign), campaign);
  }

  async close(): Promise<void> {
    for (const shards of this.#opened) shards.close();
    await Promise.all(this.#databases.map((one) => one.close()));
  }

  #connect(url: string, statementMs = STATEMENT_MS): Database {
    const database = connectDatabase('ledger', url, statementMs, 3);
    this.#databases.push(database);
    return database;
  }
}
