import { userInfo } from 'node:os';
import { parseArgs } from 'node:util';
import type { EngineUrls } from '../shared/config/config.js';
import type { ProductId } from '../shared/domain/ids.js';
import { Refused } from '../shared/errors/faults.js';
import { CampaignsTable, type StoredCampaign } from '../shared/postgres/campaigns.js';
import type { Database } from '../shared/postgres/pool.js';
import { EventStream } from '../shared/redis/event-stream.js';
import { SaleCopy } from '../shared/sale/sale-copy.js';
import { connectDatabase, engineUrls, runCommand, type Terminal } from './command.js';
import { CommandShards } from './command-shards.js';
import { type Partition, RedemptionPartitions } from './partitions/redemption-partitions.js';

const USAGE = `usage: npm run partitions                                    lists the partitions
       npm run partitions -- add <product_id>               gives a campaign without reservations its own partition
       npm run partitions -- drop <product_id> [--yes]      drops the reservations of a closed campaign

A campaign with its own partition can be dropped in a second, however many reservations it has. Without --yes, drop prints
what it would do. It refuses campaigns that are not closed and archived, or that have events to send. docs/postgres.md.

Exit code 0 when done, 1 when refused, 2 when it failed. REDIS_URL and DATABASE_URL name the engines; without them those of
\`npm start\`.
`;

/** Proving that no row is in the shared partition reads it once: about a minute for 100 million rows. */
const STATEMENT_MS = 3_600_000;

type Options =
  | { action: 'list' }
  | { action: 'add'; product: string }
  | { action: 'drop'; product: string; yes: boolean };
type Context = { partitions: RedemptionPartitions; target: EngineUrls['redis']; database: Database };

await runCommand<Options>({
  usage: USAGE,
  parse(args) {
    const { values, positionals } = parseArgs({
      args,
      allowPositionals: true,
      options: { yes: { type: 'boolean', default: false } },
    });
    const [action = 'list', product, ...more] = positionals;
    if (!['list', 'add', 'drop'].includes(action)) throw new TypeError(`There is no action ${action}`);
    if (more.length > 0 || (values.yes && action !== 'drop')) return null;
    if (action === 'list' && product === undefined) return { action };
    if (action === 'add' && product !== undefined) return { action, product };
    return action === 'drop' && product !== undefined ? { action, product, yes: values.yes } : null;
  },
  async run(options, { print }) {
    const { redis: target, databaseUrl } = engineUrls();
    const database = connectDatabase('partitions', databaseUrl, STATEMENT_MS, 2);
    const partitions = new RedemptionPartitions(database);
    try {
      if (options.action === 'list') {
        for (const partition of await partitions.list()) print(lineOf(partition));
        return 0;
      }
      const campaign = await campaignOf(database, options.product);
      if (options.action === 'add') print(lineOf(await partitions.add(campaign)));
      else await drop({ partitions, target, database }, campaign, options.yes, print);
      return 0;
    } finally {
      await database.close();
    }
  },
});

async function drop(
  { partitions, target, database }: Context,
  campaign: StoredCampaign,
  confirmed: boolean,
  print: Terminal['print'],
): Promise<void> {
  const partition = (await partitions.list()).find(({ no }) => no === campaign.no);
  if (campaign.redemptionsDroppedAt) {
    print(`the rows of ${campaign.productId} were dropped at ${campaign.redemptionsDroppedAt.toISOString()}`);
    return;
  }
  await refuseIfNeeded({ partitions, target, database }, campaign);
  if (!confirmed && partition) {
    print(`would drop ${lineOf(partition)}: ${campaign.reservations} reservations of ${campaign.productId}.`);
    print('The counters, terms, codes, line and audit log of the campaign stay. There is no way back but a backup.');
    print('To do it, repeat the command with --yes.');
    return;
  }
  await partitions.drop(campaign, `npm run partitions (${userInfo().username})`);
  print(`dropped ${campaign.reservations} reservations of ${campaign.productId}`);
}

/** @throws Refused when something still needs the rows */
async function refuseIfNeeded({ partitions, target, database }: Context, campaign: StoredCampaign): Promise<void> {
  if (campaign.status !== 'closed') throw new Refused(`The campaign is ${campaign.status}. Close it first.`);
  if (campaign.held > 0) throw new Refused(`${campaign.held} units are held, and may still be paid.`);
  const shards = await CommandShards.of(target, database, { commandMs: 10_000 });
  try {
    for (let bucket = 0; bucket < campaign.buckets; bucket += 1) {
      const { redis } = await shards.of(campaign.productId, bucket);
      const copy = await new SaleCopy(redis).campaign(campaign.productId);
      if (copy && !copy.archived)
        throw new Refused('Redis still has its reservations. Workers archive a closed campaign by themselves.');
    }
    const stream = new EventStream((await shards.open(0)).scripts, 0);
    if (await partitions.hasUnsentEvents(campaign, await stream.lastSeq())) {
      throw new Refused('Events of the campaign have not been sent to the stream and to every webhook yet.');
    }
  } finally {
    shards.close();
  }
}

async function campaignOf(database: Database, productId: string): Promise<StoredCampaign> {
  const campaign = await new CampaignsTable(database).find(productId as ProductId);
  if (!campaign) throw new Refused(`There is no campaign for ${productId}.`);
  return campaign;
}

function lineOf({ name, product: owner, rows, bytes }: Partition): string {
  return `${name} (${owner ?? 'all other campaigns'}, about ${rows} rows, ${Math.ceil(bytes / 2 ** 20)} MiB)`;
}
