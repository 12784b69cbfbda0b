import { userInfo } from 'node:os';
import { join } from 'node:path';
import { ConfigError, readEngineUrls } from '../config/config.js';
import { LIMITS } from '../config/limits.js';
import { projectRoot } from '../config/project-root.js';
import type { ProductId } from '../domain/ids.js';
import { CampaignsTable, type StoredCampaign } from '../postgres/campaigns.js';
import { Database } from '../postgres/pool.js';
import { type Partition, PartitionRefused, RedemptionPartitions } from '../postgres/redemption-partitions.js';
import { EventStream } from '../redis/event-stream.js';
import { ScriptRunner } from '../redis/script-runner.js';
import { SaleCopy } from '../sale/sale-copy.js';
import { CommandShards } from '../shards/command-shards.js';

/** `npm run partitions`: see scripts/partitions.mjs for its arguments. */
/** Proving that no row is in the shared partition reads it once: about a minute for 100 million rows. */
const STATEMENT_MS = 3_600_000;

const [action = 'list', product, ...flags] = process.argv.slice(2);
const print = (line: string) => process.stdout.write(`${line}\n`);
const { redis: target, databaseUrl } = engineUrls();
const database = new Database({
  url: databaseUrl,
  name: 'doorbuster-partitions',
  connections: 2,
  statementMs: STATEMENT_MS,
  connectMs: LIMITS.commandConnectMs,
  onError: () => {},
});
const partitions = new RedemptionPartitions(database);
try {
  if (action === 'list') await list();
  else if (action === 'add') await add(await campaignOf(product));
  else await drop(await campaignOf(product), flags.includes('--yes'));
} catch (error) {
  const reason = error instanceof Error ? error.message : String(error);
  process.stderr.write(error instanceof PartitionRefused ? `refused: ${reason}\n` : `it failed: ${reason}\n`);
  process.exitCode = error instanceof PartitionRefused ? 1 : 2;
} finally {
  await database.close();
}

async function list(): Promise<void> {
  for (const partition of await partitions.list()) print(lineOf(partition));
}

async function add(campaign: StoredCampaign): Promise<void> {
  print(lineOf(await partitions.add(campaign)));
}

async function drop(campaign: StoredCampaign, confirmed: boolean): Promise<void> {
  const partition = (await partitions.list()).find(({ no }) => no === campaign.no);
  if (campaign.redemptionsDroppedAt) {
    print(`the rows of ${campaign.productId} were dropped at ${campaign.redemptionsDroppedAt.toISOString()}`);
    return;
  }
  await refuseIfNeeded(campaign);
  if (!confirmed && partition) {
    print(`would drop ${lineOf(partition)}: ${campaign.reservations} reservations of ${campaign.productId}.`);
    print('The counters, terms, codes, line and audit log of the campaign stay. There is no way back but a backup.');
    print('To do it, repeat the command with --yes.');
    return;
  }
  await partitions.drop(campaign, `npm run partitions (${userInfo().username})`);
  print(`dropped ${campaign.reservations} reservations of ${campaign.productId}`);
}

/** @throws PartitionRefused when something still needs the rows */
async function refuseIfNeeded(campaign: StoredCampaign): Promise<void> {
  if (campaign.status !== 'closed') throw new PartitionRefused(`The campaign is ${campaign.status}. Close it first.`);
  if (campaign.held > 0) throw new PartitionRefused(`${campaign.held} units are held, and may still be paid.`);
  const shards = await CommandShards.of(target, database, { commandMs: 10_000, connectMs: LIMITS.commandConnectMs });
  try {
    for (let bucket = 0; bucket < campaign.buckets; bucket += 1) {
      const { redis } = await shards.of(campaign.productId, bucket);
      const copy = await new SaleCopy(redis).campaign(campaign.productId);
      if (copy && !copy.archived)
        throw new PartitionRefused(
          'Redis still has its reservations. Workers archive a closed campaign by themselves.',
        );
    }
    const home = await shards.open(0);
    const stream = new EventStream(new ScriptRunner(home.redis, join(projectRoot(), 'lua')), 0);
    if (await partitions.hasUnsentEvents(campaign, await stream.lastSeq())) {
      throw new PartitionRefused('Events of the campaign have not been sent to the stream and to every webhook yet.');
    }
  } finally {
    shards.close();
  }
}

async function campaignOf(productId: string | undefined): Promise<StoredCampaign> {
  const campaign = productId ? await new CampaignsTable(database).find(productId as ProductId) : null;
  if (!campaign) throw new PartitionRefused(`There is no campaign for ${productId}.`);
  return campaign;
}

function lineOf({ name, product: owner, rows, bytes }: Partition): string {
  return `${name} (${owner ?? 'all other campaigns'}, about ${rows} rows, ${Math.ceil(bytes / 2 ** 20)} MiB)`;
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
