import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { ConfigError, readEngineUrls } from '../config/config.js';
import { projectRoot } from '../config/project-root.js';
import { compareLedger } from '../ledger/compare.js';
import { CampaignsTable } from '../postgres/campaigns.js';
import { Database } from '../postgres/pool.js';
import { RedemptionsTable } from '../postgres/redemptions.js';
import { EventStream } from '../redis/event-stream.js';
import { ScriptRunner } from '../redis/script-runner.js';
import { SaleReader } from '../sale/sale-reader.js';
import { type CommandShard, CommandShards } from '../shards/command-shards.js';
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
const LUA = join(projectRoot(), 'lua');

const { dryRun } = options();
const { redis: target, databaseUrl } = engineUrls();
const print = (line: string) => process.stdout.write(`${line}\n`);

const database = new Database({
  url: databaseUrl,
  name: 'doorbuster-reconcile',
  connections: 4,
  statementMs: STATEMENT_MS,
  connectMs: 3_000,
  onError: () => {},
});
let failed = 'nothing was written';
let shards: CommandShards | null = null;
try {
  shards = await CommandShards.of(target, database, { commandMs: STATEMENT_MS, connectMs: 3_000 });
  const stream = new EventStream(new ScriptRunner((await shards.open(0)).redis, LUA), 0);
  let code = 0;
  for (let index = 0; index < shards.map.count; index += 1) {
    if (shards.map.count > 1) print(`shard ${index}`);
    code = Math.max(code, await repairOne(shards, index, stream));
  }
  process.exitCode = code;
} catch (error) {
  process.stderr.write(`${failed}: ${error instanceof Error ? error.message : error}\n`);
  process.exitCode = 2;
} finally {
  shards?.close();
  await database.close();
}

/** Goes on after a shard that cannot be repaired, because the others may be. @returns the exit code */
async function repairOne(all: CommandShards, index: number, stream: EventStream): Promise<number> {
  try {
    return await repairShard(await all.open(index), stream);
  } catch (error) {
    if (all.map.count === 1) throw error;
    process.stderr.write(`shard ${index}: ${failed}: ${error instanceof Error ? error.message : error}\n`);
    return 2;
  }
}

/** @returns the exit code */
async function repairShard(shard: CommandShard, stream: EventStream): Promise<number> {
  failed = 'nothing was written';
  const findings = await restorePostgres({ ...shard, stream, database }, { dryRun, settleMs: STANDSTILL_MS });
  failed = 'the ledger could not be compared; repeat the command';
  for (const line of reportOf(findings, dryRun)) print(line);
  if (dryRun) return isWhole(findings) ? 0 : 1;
  return judge(findings, shard);
}

/** Prints the ledger's verdict on every campaign. @returns the exit code */
async function judge({ campaigns }: Findings, { redis, journal, cursor }: CommandShard): Promise<number> {
  const parts = {
    sale: new SaleReader(new ScriptRunner(redis, LUA)),
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
