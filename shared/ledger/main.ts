import { ConfigError, readEngineUrls } from '../config/config.js';
import { LIMITS } from '../config/limits.js';
import { compareCampaign } from '../image/compare-campaign.js';
import { CampaignsTable } from '../postgres/campaigns.js';
import { Database } from '../postgres/pool.js';
import { ReadReplica } from '../postgres/read-replica.js';
import { CommandShards } from '../shards/command-shards.js';
import { ledgerDeps } from './ledger-deps.js';
import { type Source, whereCovered } from './where-covered.js';

/**
 * `npm run ledger -- <product_id>`: compares Redis, journal and Postgres, and prints one JSON object. The exit code is
 * 1 if anything is lost, duplicated, over the cap or drifted, and 2 if the comparison failed.
 */
const STATEMENT_MS = 60_000;
/** How long the replica may need for what the primary has now. */
const REPLICA_WAIT_MS = 15_000;

const [product] = process.argv.slice(2);
if (!product || product.startsWith('-')) {
  process.stderr.write('usage: npm run ledger -- <product_id>\n');
  process.exit(2);
}
const { redis: target, databaseUrl, databaseReadUrl } = engineUrls();

const databases: Database[] = [];
const opened: CommandShards[] = [];
const warn = (reason: string) => process.stderr.write(`the primary is read: ${reason}\n`);
try {
  const verdict = await whereCovered(await sources(), compareIn, warn);
  process.stdout.write(`${JSON.stringify(verdict, null, 2)}\n`);
  process.exitCode = verdict.lost + verdict.duplicated + verdict.over_cap + verdict.drift === 0 ? 0 : 1;
} catch (error) {
  process.stderr.write(`the ledger could not be compared: ${error instanceof Error ? error.message : error}\n`);
  process.exitCode = 2;
} finally {
  for (const shards of opened) shards.close();
  await Promise.all(databases.map((one) => one.close()));
}

function connect(url: string, statementMs = STATEMENT_MS): Database {
  const options = { name: 'doorbuster-ledger', connections: 3, connectMs: LIMITS.commandConnectMs, onError() {} };
  const database = new Database({ url, statementMs, ...options });
  databases.push(database);
  return database;
}

async function compareIn(database: Database) {
  const shards = await CommandShards.of(target, database, {
    commandMs: STATEMENT_MS,
    connectMs: LIMITS.commandConnectMs,
  });
  opened.push(shards);
  const campaign = await new CampaignsTable(database).find(String(product));
  if (!campaign) throw new Error(`there is no campaign for ${product}`);
  return compareCampaign(await ledgerDeps(database, shards, campaign), campaign);
}

/** The databases whose rows may be compared, in their order. The second one is read where the first one stops. */
async function sources(): Promise<Source[]> {
  const primary = connect(databaseUrl);
  if (databaseReadUrl === null) return [{ database: primary, read: {} }];
  const replica = connect(databaseReadUrl);
  const limits = { replicaWaitMs: REPLICA_WAIT_MS, replicaAwayMs: 0 };
  const reads = new ReadReplica(primary, connect(databaseReadUrl, LIMITS.postgresStatementMs), limits, warn);
  const { source, asOf } = await reads.current();
  const ofPrimary = { database: primary, read: { read_from: 'primary', as_of: asOf } };
  if (source === 'primary') return [ofPrimary];
  return [{ database: replica, read: { read_from: source, as_of: asOf } }, ofPrimary];
}

function engineUrls(): ReturnType<typeof readEngineUrls> {
  try {
    return readEngineUrls();
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    process.stderr.write(`${error.message}\nor start a service with \`npm start\`\n`);
    process.exit(2);
  }
}
