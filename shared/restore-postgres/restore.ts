import type { Redis } from 'ioredis';
import type { ProductId } from '../domain/ids.js';
import { EngineUnavailable } from '../errors/faults.js';
import { untilPersisted } from '../image/until-persisted.js';
import type { Database, Queryable } from '../postgres/pool.js';
import type { JournalCursor } from '../projection/journal-cursor.js';
import { type Epoch, readEpoch } from '../redis/epoch.js';
import type { EventStream } from '../redis/event-stream.js';
import type { Journal } from '../redis/journal.js';
import { compareJournalIds } from '../redis/journal-ids.js';
import { parseInfo } from '../redis/redis-requirements.js';
import { type CampaignCopy, SaleCopy } from '../sale/sale-copy.js';
import { converge, Names, type Picture } from './converge.js';
import { DividedCampaigns } from './divided-campaigns.js';
import type { Findings } from './findings.js';
import { Repair } from './repair.js';
import { RestoredBuckets } from './restored-buckets.js';
import { RestoredCampaigns } from './restored-campaigns.js';
import { RestoredRows } from './restored-rows.js';
import { scanCampaign } from './scan.js';

/** The limit between two statements of the transaction. It is long, because Redis is read in between. */
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
  /** How long the cursor may stay unchanged before the workers count as stopped. */
  settleMs: number;
  /** How many buckets a campaign has. */
  bucketsOf?: (product: ProductId) => number;
  /** Numbers of the campaigns that any shard has, also others than these. */
  numbers?: ReadonlySet<number>;
};

/** Redis has less than Postgres, so it cannot be used to repair Postgres. */
export class RedisBehind extends Error {
  override readonly name = 'RedisBehind';
}

/** A shard is empty or being filled, so it proves nothing. */
export class OutOfService extends EngineUnavailable {}

/** Another server continues the journal of a shard, so this one may lack its last entries. */
export class Superseded extends Error {
  override readonly name = 'Superseded';
}

/** The server that a shard is read from (`master_replid`), and its history. */
type Source = { epoch: Epoch; server: string };

/** A shard whose records were compared with their rows, while the sale goes on. */
type Scanned = {
  deps: RestoreDeps;
  copy: SaleCopy;
  source: Source;
  directory: Map<number, ProductId>;
  suspects: Names;
  /** Campaigns whose number belongs to another campaign in the directory. */
  unnamed: CampaignCopy[];
  from: string;
};

/** The shard at one moment. `repair`: null = its history is new, and Postgres has what came before */
type Pictured = { shard: number; picture: Picture; committed: string; repair: Repair | null };

/**
 * Repairs Postgres from Redis after Postgres was set back, while the sale goes on. Everything is written in one
 * transaction, which holds the lock on the journal's cursor. So no worker persists meanwhile, and an interrupted repair
 * changes nothing. Nothing is voided, and rows that Redis lacks stay as they are.
 * @throws RedisBehind, Superseded, BucketsDiffer, EntryOfNoCampaign, EngineUnavailable
 */
export async function restorePostgres(deps: RestoreDeps, options: RestoreOptions): Promise<Findings> {
  const [findings] = await restoreTogether([deps], options);
  if (!findings) throw new Error('a shard has no findings');
  return findings;
}

/**
 * Does the same for several shards in one transaction, because they have buckets of the same campaigns. All cursors are
 * locked before the first shard is read: a transfer arrives only after Postgres has it, so no bucket is read with units
 * that another one, read later, has not given.
 * @returns the findings of each shard
 */
export async function restoreTogether(all: readonly RestoreDeps[], options: RestoreOptions): Promise<Findings[]> {
  const [first] = all;
  if (!first) return [];
  for (const { redis } of all) await sourceOf(redis);
  // First waits while workers persist the journal. The repair writes only what they cannot write.
  await Promise.all(all.map((deps) => untilPersisted(deps, options.settleMs)));
  const scanned: Scanned[] = [];
  for (const deps of all) scanned.push(await scan(deps));
  const findings = await first.database.transaction(async (client) => {
    await client.query("select set_config('idle_in_transaction_session_timeout', $1, true)", [
      String(IDLE_IN_TRANSACTION_MS),
    ]);
    const cursors: string[] = [];
    for (const { deps, source } of scanned) {
      // No history begins in Postgres while the cursor is locked.
      const locked = await deps.cursor.lockWithHistory(client);
      if ((locked.generation ?? 0) > source.epoch.generation)
        throw new Superseded('another Redis server continues the journal; connect to that one');
      cursors.push(locked.cursor);
    }
    await first.cursor.lockWrites(client);
    const pictured: Pictured[] = [];
    for (const [i, one] of scanned.entries())
      pictured.push(await take(client, one, cursors[i] ?? '', options.numbers ?? new Set()));
    const findings = await repairAll(client, pictured, options);
    // A server that has followed another one meanwhile has the other one's data.
    for (const { deps, source } of scanned) {
      const { epoch, server } = await sourceOf(deps.redis);
      if (server !== source.server || epoch.generation !== source.epoch.generation)
        throw new Superseded('Redis continues on another server since; repeat the command');
    }
    return findings;
  });
  if (options.dryRun) return findings;
  for (const [i, { journal }] of all.entries()) {
    const lastId = findings[i]?.lastId ?? '';
    // Notifies the processes that wait for the commit, and trims the journal, as a worker does after each batch.
    await journal.announcePersisted(lastId);
    await journal.trim(lastId);
  }
  return findings;
}

/** @throws OutOfService @throws Superseded */
async function sourceOf(redis: Redis): Promise<Source> {
  const info = parseInfo((await redis.call('INFO', 'replication')) as string);
  if (info.get('role') !== 'master') throw new Superseded('this Redis server is not the primary');
  const epoch = await readEpoch(redis);
  if (epoch === null) throw new OutOfService('redis', 'it is empty or being filled');
  return { epoch, server: info.get('master_replid') ?? '' };
}

async function scan(deps: RestoreDeps): Promise<Scanned> {
  const { redis, journal, database } = deps;
  const copy = new SaleCopy(redis);
  const source = await sourceOf(redis);
  const from = await journal.lastId();
  const known = new Map((await new RestoredCampaigns(database).all()).map((row) => [row.no, row]));
  const directory = new Map<number, ProductId>();
  const displaced: ProductId[] = await copy.displaced();
  for (const [no, product] of await copy.directory()) {
    const other = directory.get(no);
    const isOwner = other === undefined || known.get(no)?.product === product;
    if (isOwner) directory.set(no, product);
    if (other !== undefined) displaced.push(isOwner ? other : product);
  }
  const suspects = new Names();
  const rows = new RestoredRows(database);
  for (const [no, product] of directory) {
    const campaign = await copy.campaign(product);
    if (campaign && !campaign.archived) await scanCampaign(copy, rows, campaign, known.get(no) ?? null, suspects);
  }
  const unnamed: CampaignCopy[] = [];
  for (const product of displaced) {
    const campaign = await copy.campaign(product);
    if (campaign && directory.get(campaign.no) !== product) unnamed.push(campaign);
  }
  return { deps, copy, source, directory, suspects, unnamed, from };
}

/**
 * Reads the shard as it is at one entry of its journal.
 * @param numbers of the campaigns that other shards have. @throws RedisBehind @throws Superseded
 *   @throws EntryOfNoCampaign
 */
async function take(
  client: Queryable,
  scanned: Scanned,
  committed: string,
  numbers: ReadonlySet<number>,
): Promise<Pictured> {
  const { deps, copy, directory, suspects, unnamed, from } = scanned;
  const { journal, cursor } = deps;
  const isNew = await isNewHistory(deps, client, committed);
  const picture = await converge({ copy, journal }, directory, suspects, from);
  const pictured = { shard: cursor.shard, picture, committed };
  if (isNew) return { ...pictured, repair: null };
  if (compareJournalIds(picture.lastId, committed) < 0) {
    throw new RedisBehind(`Redis has the journal up to ${picture.lastId}, Postgres up to ${committed}`);
  }
  const repair = new Repair(deps, client, { here: directory, elsewhere: numbers }, picture, unnamed, committed);
  await repair.read();
  return { ...pictured, repair };
}

/** Plans all shards, then writes each step for all of them. */
async function repairAll(
  client: Queryable,
  pictured: readonly Pictured[],
  { dryRun, bucketsOf = () => 1 }: RestoreOptions,
): Promise<Findings[]> {
  const rows = {
    campaigns: await new RestoredCampaigns(client).all(),
    buckets: await new RestoredBuckets(client).all(),
  };
  const buckets = pictured.flatMap(({ shard, picture, repair }) =>
    [...picture.campaigns.values()].flatMap((copy) =>
      copy.part ? [{ copy, part: copy.part, shard, backlog: repair?.backlog ?? null }] : [],
    ),
  );
  const divided = await DividedCampaigns.plan(client, rows, buckets, bucketsOf);
  const repairs = pictured.flatMap(({ repair }) => repair ?? []);
  for (const repair of repairs) await repair.plan(rows);
  const [first] = repairs;
  if (!dryRun && first) {
    for (const repair of repairs) await repair.begin();
    await divided.begin();
    for (const repair of repairs) await repair.writeEnds();
    for (const repair of repairs) await repair.writeBeginnings();
    for (const repair of repairs) await repair.writeStatuses();
    await divided.finish(first.nowMs);
    const totals = divided.totalsBeforeBacklog();
    for (const repair of repairs) await repair.finish(totals);
  }
  return pictured.map(({ shard, committed, repair }) => {
    const findings = repair?.findings() ?? nothingMissing(committed);
    const campaigns = findings.campaigns.map((one) => divided.withTransfers(one));
    return { ...findings, campaigns: [...divided.findingsOf(shard), ...campaigns] };
  });
}

/** Whether the history of Redis began after the last entry that Postgres has, and nothing was written in it yet. */
async function isNewHistory({ redis, journal }: RestoreDeps, client: Queryable, committed: string): Promise<boolean> {
  const [epoch, { entries, lastId }] = await Promise.all([readEpoch(redis), journal.position()]);
  if (epoch === null || entries > 0 || compareJournalIds(lastId, committed) >= 0) return false;
  const { rows } = await client.query('select 1 from journal_histories where generation = $1 and after_id = $2', [
    epoch.generation,
    committed,
  ]);
  return rows.length > 0;
}

const nothingMissing = (cursor: string): Findings => ({
  cursor,
  lastId: cursor,
  backlog: 0,
  gap: false,
  campaigns: [],
  renumberedEvents: null,
});
