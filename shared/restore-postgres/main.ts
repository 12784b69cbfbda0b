import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { ConfigError, readEngineUrls } from '../config/config.js';
import { projectRoot } from '../config/project-root.js';
import { compareLedger } from '../ledger/compare.js';
import { CampaignsTable } from '../postgres/campaigns.js';
import { Database } from '../postgres/pool.js';
import { RedemptionsTable } from '../postgres/redemptions.js';
import { JournalCursor } from '../projection/journal-cursor.js';
import { connectForCommands } from '../redis/connections.js';
import { EventStream } from '../redis/event-stream.js';
import { Journal } from '../redis/journal.js';
import { ScriptRunner } from '../redis/script-runner.js';
import { SaleReader } from '../sale/sale-reader.js';
import type { Findings } from './findings.js';
import { isWhole, reportOf, verdictLine } from './report.js';
import { restorePostgres } from './restore.js';

/**
 * `npm run reconcile -- --after-restore`: repairs Postgres from Redis. The exit code is 0 if nothing is lost or drifted
 * afterwards (in a dry run: if nothing is missing), 1 otherwise, and 2 if the command failed.
 */
const STATEMENT_MS = 120_000;
/** How long the cursor may stay unchanged before the command assumes that no worker is persisting. */
const STANDSTILL_MS = 2_000;
const LEDGER_SETTLE_MS = 3_000;

const { dryRun } = options();
const { redis: target, databaseUrl } = engineUrls();
const print = (line: string) => process.stdout.write(`${line}\n`);

const redis = connectForCommands(target, { commandMs: STATEMENT_MS, connectMs: 3_000 }, () => {});
const database = new Database({
  url: databaseUrl,
  name: 'doorbuster-reconcile',
  connections: 4,
  statementMs: STATEMENT_MS,
  connectMs: 3_000,
  onError: () => {},
});
let failed = 'nothing was written';
try {
  await new Promise<void>((resolve, reject) => {
    redis.once('ready', resolve);
    redis.once('error', reject);
  });
  const journal = new Journal(redis);
  const cursor = new JournalCursor(database);
  const stream = new EventStream(new ScriptRunner(redis, join(projectRoot(), 'lua')), 0);
  const findings = await restorePostgres(
    { redis, journal, stream, database, cursor },
    { dryRun, settleMs: STANDSTILL_MS },
  );
  failed = 'the ledger could not be compared; repeat the command';
  for (const line of reportOf(findings, dryRun)) print(line);
  process.exitCode = dryRun ? (isWhole(findings) ? 0 : 1) : await judge(findings, journal, cursor);
} catch (error) {
  process.stderr.write(`${failed}: ${error instanceof Error ? error.message : error}\n`);
  process.exitCode = 2;
} finally {
  redis.disconnect();
  await database.close();
}

/** Prints the ledger's verdict on every campaign. @returns the exit code */
async function judge({ campaigns }: Findings, journal: Journal, cursor: JournalCursor): Promise<number> {
  const parts = {
    sale: new SaleReader(new ScriptRunner(redis, join(projectRoot(), 'lua'))),
    journal,
    cursor,
    redemptions: new RedemptionsTable(database),
  };
  const table = new CampaignsTable(database);
  let code = 0;
  print('');
  for (const { product, archived, archivedUnits } of campaigns) {
    if (archived && archivedUnits === 0) continue;
    const campaign = await table.find(product);
    if (!campaign) continue;
    const verdict = await compareLedger(parts, campaign, LEDGER_SETTLE_MS);
    print(verdictLine(verdict));
    if (verdict.lost + verdict.duplicated + verdict.over_cap + verdict.drift > 0) code = 1;
  }
  return code;
}

function options(): { dryRun: boolean } {
  try {
    const { values } = parseArgs({
      options: { 'after-restore': { type: 'boolean' }, 'dry-run': { type: 'boolean', default: false } },
    });
    if (values['after-restore']) return { dryRun: values['dry-run'] };
    process.stderr.write('usage: npm run reconcile -- --after-restore [--dry-run]\n');
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : error}\n`);
  }
  process.exit(2);
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
