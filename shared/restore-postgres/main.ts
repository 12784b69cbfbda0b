import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { ConfigError, readEngineUrls } from '../config/config.js';
import { LIMITS } from '../config/limits.js';
import { projectRoot } from '../config/project-root.js';
import { isClean } from '../contracts/verdict.js';
import type { ProductId } from '../domain/ids.js';
import { compareCampaign } from '../image/compare-campaign.js';
import { ledgerDeps } from '../ledger/ledger-deps.js';
import { CampaignsTable } from '../postgres/campaigns.js';
import { Database } from '../postgres/pool.js';
import { EventStream } from '../redis/event-stream.js';
import { ScriptRunner } from '../redis/script-runner.js';
import { SaleCopy } from '../sale/sale-copy.js';
import type { CommandShards } from '../shards/command-shards.js';
import { findDivided } from './find-divided.js';
import type { Findings } from './findings.js';
import { OutOfService, RedisBehind } from './refusals.js';
import { isWhole, reportOf, verdictLine } from './report.js';
import { restoreTogether } from './restore.js';
import { RestoredPlaces } from './restored-places.js';

/**
 * `npm run reconcile -- --after-restore`: repairs Postgres from Redis. The exit code is 0 if nothing is lost or drifted
 * afterwards (in a dry run: if nothing is missing), 1 otherwise, and 2 if the command failed.
 */
const STATEMENT_MS = 120_000;
/** How long the cursor may stay unchanged before the command assumes that no worker is persisting. */
const STANDSTILL_MS = 2_000;
/** Campaigns that are compared at a time. */
const COMPARED_AT_ONCE = 5;
const LUA = join(projectRoot(), 'lua');

const { dryRun } = options();
const { redis: target, databaseUrl } = engineUrls();
const print = (line: string) => process.stdout.write(`${line}\n`);

const database = new Database({
  url: databaseUrl,
  name: 'doorbuster-reconcile',
  connections: 4,
  statementMs: STATEMENT_MS,
  connectMs: LIMITS.commandConnectMs,
  onError: () => {},
});
let failed = 'nothing was written';
let shards: CommandShards | null = null;
try {
  const limits = { commandMs: STATEMENT_MS, connectMs: LIMITS.commandConnectMs };
  const places = await RestoredPlaces.read({ target, database, limits });
  shards = places.shards;
  for (const line of places.lines) print(line);
  process.exitCode = places.hasLostNumber && dryRun ? reportLostNumber() : await repairAll(places);
} catch (error) {
  process.stderr.write(`${failed}: ${error instanceof Error ? error.message : error}\n`);
  process.exitCode = 2;
} finally {
  shards?.close();
  await database.close();
}

/** The journals of these shards have no cursor in Postgres yet. @returns the exit code */
function reportLostNumber(): number {
  print('What else Postgres lacks is known when it has the number of shards.');
  print('Dry run: nothing was written.');
  return 1;
}

/** First the number of shards and the places of campaigns, then what is in them. @returns the exit code */
async function repairAll(places: RestoredPlaces): Promise<number> {
  const all = places.shards;
  const stream = new EventStream(new ScriptRunner((await all.open(0)).redis, LUA), 0);
  // Units move between the buckets of a campaign, so their shards are repaired in one transaction.
  const together = await findDivided(all);
  const { isBehind } = places;
  const { count } = all.map;
  const alone = Array.from({ length: count }, (_, index) => index).filter((index) => !together.includes(index));
  const numbers = await numbersOf(all);
  if (isBehind && !dryRun) await places.begin();
  let [code, isCurrent, hasCreated] = [0, true, false];
  for (const group of [together, ...alone.map((index) => [index])].filter(({ length }) => length > 0)) {
    const outcome = await repairGroup(all, group, stream, numbers);
    code = Math.max(code, outcome.code);
    isCurrent &&= outcome.isWritten;
    hasCreated ||= outcome.hasCreated;
  }
  if (dryRun) return isBehind ? Math.max(code, 1) : code;
  if (!isBehind && !(hasCreated && count > 1)) return code;
  // Processes must not take their map for current while Postgres may lack a campaign.
  if (isCurrent) await places.finish();
  else process.stderr.write('repeat the command: until then, requests for campaigns that moved get 503\n');
  return code;
}

/** The numbers of the campaigns that Redis has. */
async function numbersOf(all: CommandShards): Promise<ReadonlySet<number>> {
  const numbers = new Set<number>();
  for (let index = 0; index < all.map.count; index += 1) {
    const copy = new SaleCopy((await all.open(index)).redis);
    for (const [no] of await copy.directory()) numbers.add(no);
  }
  return numbers;
}

/** `isWritten`: Postgres has what these shards have. */
type Outcome = { code: number; isWritten: boolean; hasCreated: boolean };

/** Goes on after shards that cannot be repaired, because the others may be. */
async function repairGroup(
  all: CommandShards,
  group: readonly number[],
  stream: EventStream,
  numbers: ReadonlySet<number>,
): Promise<Outcome> {
  try {
    return await repairShards(all, group, stream, numbers);
  } catch (error) {
    if (all.map.count === 1) throw error;
    const name = group.length === 1 ? `shard ${group[0]}` : `shards ${group.join(', ')}`;
    process.stderr.write(`${name}: ${failed}: ${error instanceof Error ? error.message : error}\n`);
    return {
      code: 2,
      isWritten: group.length === 1 && (await provesNothing(all, group[0] as number, error)),
      hasCreated: false,
    };
  }
}

/**
 * Whether a shard that was not repaired has nothing that Postgres lacks: it is empty, or has less than Postgres. Its
 * worker fills it.
 */
async function provesNothing(all: CommandShards, index: number, error: unknown): Promise<boolean> {
  if (error instanceof RedisBehind) return true;
  if (!(error instanceof OutOfService)) return false;
  return (await new SaleCopy((await all.open(index)).redis).directory()).length === 0;
}

async function repairShards(
  all: CommandShards,
  group: readonly number[],
  stream: EventStream,
  numbers: ReadonlySet<number>,
): Promise<Outcome> {
  failed = 'nothing was written';
  const parts = [];
  for (const index of group) parts.push({ ...(await all.open(index)), stream, database });
  const bucketsOf = (product: ProductId) => all.map.bucketsOf(product);
  const found = await restoreTogether(parts, { dryRun, settleMs: STANDSTILL_MS, bucketsOf, numbers });
  failed = 'the ledger could not be compared; repeat the command';
  for (const [i, findings] of found.entries()) {
    if (all.map.count > 1) print(`shard ${group[i]}`);
    for (const line of reportOf(findings, dryRun)) print(line);
  }
  const hasCreated = found.some(({ campaigns }) => campaigns.some(({ unknown }) => unknown));
  const code = dryRun ? (found.every(isWhole) ? 0 : 1) : await judge(found, all);
  return { code, isWritten: true, hasCreated };
}

/** Prints the ledger's verdict on every campaign. @returns the exit code */
async function judge(found: readonly Findings[], all: CommandShards): Promise<number> {
  const table = new CampaignsTable(database);
  const compared = found.flatMap(({ campaigns }) =>
    campaigns.flatMap(({ product, archived, archivedUnits }) => (archived && archivedUnits === 0 ? [] : [product])),
  );
  const products = [...new Set(compared)] as ProductId[];
  let code = 0;
  print('');
  const compare = async (product: ProductId) => {
    const campaign = await table.find(product);
    return campaign && compareCampaign(await ledgerDeps(database, all, campaign), campaign);
  };
  for (let start = 0; start < products.length; start += COMPARED_AT_ONCE) {
    for (const verdict of await Promise.all(products.slice(start, start + COMPARED_AT_ONCE).map(compare))) {
      if (!verdict) continue;
      print(verdictLine(verdict));
      if (!isClean(verdict)) code = 1;
    }
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
