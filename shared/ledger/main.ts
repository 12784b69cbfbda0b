import { ConfigError, readEngineUrls } from '../config/config.js';
import { LIMITS } from '../config/limits.js';
import { CampaignsTable } from '../postgres/campaigns.js';
import { Database } from '../postgres/pool.js';
import { ReadReplica } from '../postgres/read-replica.js';
import { CommandShards } from '../shards/command-shards.js';
import { compareLedger } from './compare.js';
import { ledgerDeps } from './ledger-deps.js';

/**
 * `npm run ledger -- <product_id>`: compares Redis, journal and Postgres, and prints one JSON object. The exit code is
 * 1 if anything is lost, duplicated, over the cap or drifted, and 2 if the comparison failed.
 */
const STATEMENT_MS = 60_000;
const SETTLE_MS = 15_000;

const [product] = process.argv.slice(2);
if (!product || product.startsWith('-')) {
  process.stderr.write('usage: npm run ledger -- <product_id>\n');
  process.exit(2);
}
const { redis: target, databaseUrl, databaseReadUrl } = engineUrls();

const databases: Database[] = [];
let shards: CommandShards | null = null;
try {
  const { database, ...read } = await chooseDatabase();
  shards = await CommandShards.of(target, database, { commandMs: STATEMENT_MS, connectMs: LIMITS.commandConnectMs });
  const campaign = await new CampaignsTable(database).find(product);
  if (!campaign) throw new Error(`there is no campaign for ${product}`);
  const verdict = await compareLedger(await ledgerDeps(database, shards, campaign), campaign, SETTLE_MS);
  process.stdout.write(`${JSON.stringify({ ...verdict, ...read }, null, 2)}\n`);
  process.exitCode = verdict.lost + verdict.duplicated + verdict.over_cap + verdict.drift === 0 ? 0 : 1;
} catch (error) {
  process.stderr.write(`the ledger could not be compared: ${error instanceof Error ? error.message : error}\n`);
  process.exitCode = 2;
} finally {
  shards?.close();
  await Promise.all(databases.map((one) => one.close()));
}

function connect(url: string, statementMs = STATEMENT_MS): Database {
  const options = { name: 'doorbuster-ledger', connections: 3, connectMs: LIMITS.commandConnectMs, onError() {} };
  const database = new Database({ url, statementMs, ...options });
  databases.push(database);
  return database;
}

/**
 * The database whose rows are compared, and what is printed about it with DATABASE_READ_URL. The comparison waits for
 * the cursor of that database, so a replica that falls behind later only makes it slower.
 */
async function chooseDatabase(): Promise<{ database: Database; read_from?: string; as_of?: string }> {
  const primary = connect(databaseUrl);
  if (databaseReadUrl === null) return { database: primary };
  const replica = connect(databaseReadUrl);
  const limits = { replicaWaitMs: SETTLE_MS, replicaAwayMs: 0 };
  const reads = new ReadReplica(primary, connect(databaseReadUrl, LIMITS.postgresStatementMs), limits, (reason) =>
    process.stderr.write(`the primary is read: ${reason}\n`),
  );
  const { source, asOf } = await reads.current();
  return { database: source === 'replica' ? replica : primary, read_from: source, as_of: asOf };
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
