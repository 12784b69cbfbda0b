import type { Redis } from 'ioredis';
import { LIMITS } from '../../shared/config/limits.js';
import { normaliseCode } from '../../shared/domain/codes.js';
import type { ProductId } from '../../shared/domain/ids.js';
import { CampaignsTable } from '../../shared/postgres/campaigns.js';
import { CodesTable } from '../../shared/postgres/codes.js';
import { continueOutbox } from '../../shared/postgres/outbox-numbers.js';
import type { Queryable } from '../../shared/postgres/pool.js';
import { CodeNotifications } from '../../shared/redis/code-notifications.js';
import { type Epoch, readEpoch } from '../../shared/redis/epoch.js';
import { keys } from '../../shared/redis/keys.js';
import { parseInfo } from '../../shared/redis/redis-requirements.js';
import type { CampaignCopy } from '../../shared/sale/sale-copy.js';
import { BATCH } from './batch.js';
import { planDivisions, withTransfers, writeDivision } from './divided-campaigns.js';
import { fillFromEvents } from './events.js';
import type { Findings } from './findings.js';
import type { DivisionPlan } from './plan-division.js';
import { OutOfService, Superseded } from './refusals.js';
import { type RepairDeps, ShardRepair } from './repair-shard.js';
import { readRows } from './restored-buckets.js';
import { untilPersisted } from './until-persisted.js';

export type RestoreOptions = {
  dryRun: boolean;
  /** How long the cursor may stay unchanged before the workers count as stopped. */
  settleMs: number;
  /** How many buckets a campaign has. */
  bucketsOf?: (product: ProductId) => number;
  /** Numbers of the campaigns that any shard has, also others than these. */
  numbers?: ReadonlySet<number>;
  /** Called before the first row is written. */
  onWriting?: () => void;
};

/**
 * Repairs Postgres from Redis after Postgres was set back, while the sale goes on. Writes Redis as it was before the
 * first entry of the journal, and moves the cursor there; a worker writes the rest. Nothing is voided, and rows that
 * Redis lacks stay as they are. An interrupted repair leaves complete pages. The cursor stays until the end, so no
 * worker persists over the gap, and the repetition writes what is still missing.
 * @param all several shards if they have buckets of the same campaigns
 * @returns by shard
 * @throws RedisBehind, Superseded, BucketsDiffer, EntryOfNoCampaign, Uncovered, EngineUnavailable
 */
export async function restoreTogether(all: readonly RepairDeps[], options: RestoreOptions): Promise<Findings[]> {
  const [first] = all;
  if (!first) return [];
  const { dryRun, numbers = new Set<number>() } = options;
  for (const { redis } of all) await epochOf(redis);
  // First waits while workers persist the journal. The repair writes only what they cannot write.
  await Promise.all(all.map((deps) => untilPersisted(deps, options.settleMs)));
  const repairs: ShardRepair[] = [];
  for (const deps of all) repairs.push(await ShardRepair.begin(deps, await epochOf(deps.redis), { dryRun, numbers }));
  const together = new Together(first, repairs, options);
  return together.run();
}

/** @throws OutOfService @throws Superseded when it is a replica */
async function epochOf(redis: Redis): Promise<Epoch> {
  const info = parseInfo((await redis.call('INFO', 'replication')) as string);
  if (info.get('role') !== 'master') throw new Superseded('this Redis server is not the primary');
  const epoch = await readEpoch(redis);
  if (epoch === null) throw new OutOfService('redis', 'it is empty or being filled');
  return epoch;
}

/** One repair of shards that share campaigns. */
class Together {
  constructor(
    readonly deps: RepairDeps,
    readonly repairs: readonly ShardRepair[],
    readonly options: RestoreOptions,
  ) {}

  async run(): Promise<Findings[]> {
    const { repairs, deps, options } = this;
    const { dryRun, onWriting } = options;
    await this.#raisePositions();
    await this.#locked(async (client) => {
      const rows = await readRows(deps.database, client);
      for (const repair of repairs) repair.compare(await repair.campaigns(), rows);
    });
    if (!dryRun) onWriting?.();
    const renumbered = dryRun ? null : await this.#continueEvents();
    for (const repair of repairs) await repair.writeEnds();
    const divisions = await this.#writeHeads();
    const campaigns = await new CampaignsTable(deps.database).toRestore();
    for (const repair of repairs) {
      if (!dryRun) repair.adopt(campaigns);
      await repair.writeBeginnings();
    }
    if (!dryRun) await this.#finish();
    return repairs.map(({ deps: { cursor }, found, findings }) => ({
      cursor: found.cursor,
      lastId: found.lastId,
      backlog: found.size - found.passed,
      gap: found.hasGap,
      renumberedEvents: renumbered,
      campaigns: [
        ...divisions.flatMap(({ home, findings }) => (home.shard === cursor.shard ? [findings] : [])),
        ...findings.map((one) => withTransfers(one, divisions)),
      ],
    }));
  }

  /**
   * Units of a transfer count once. If they have arrived at the position of one shard, but not yet left at that of the
   * other one, its position is raised to the entry by which they left.
   */
  #raisePositions(): Promise<void> {
    // Locked, because a worker trims the journal of a shard without a gap.
    return this.#locked(async () => {
      for (let isRaised = true; isRaised; ) isRaised = await this.#raiseOnce();
    });
  }

  /** @returns whether a position was raised, so that another one may have to be */
  async #raiseOnce(): Promise<boolean> {
    let isRaised = false;
    const buckets: { repair: ShardRepair; copy: CampaignCopy }[] = [];
    for (const repair of this.repairs)
      for (const copy of await repair.campaigns()) if (copy.part) buckets.push({ repair, copy });
    for (const { copy } of buckets)
      for (const [from, out] of Object.entries(copy.part?.arrived ?? {})) {
        const giver = buckets.find((one) => one.copy.no === copy.no && one.copy.part?.bucket === Number(from));
        const left = giver?.repair.found.movedOut.get(`${copy.no} ${out}`);
        if (giver && left && giver.repair.raise(left)) isRaised = true;
      }
    return isRaised;
  }

  /** Makes new events continue after the numbers of the stream. @returns how many events got a new number */
  async #continueEvents(): Promise<number> {
    const { stream } = this.deps;
    const [lastSeq, published] = [await stream.lastSeq(), await stream.published(BATCH)];
    return this.#locked(async (client, write) => {
      await write();
      return continueOutbox(client, lastSeq, published);
    });
  }

  /** Writes what belongs to campaigns as a whole, in one transaction. */
  async #writeHeads(): Promise<DivisionPlan[]> {
    const { dryRun, bucketsOf = () => 1 } = this.options;
    let created: CampaignCopy[] = [];
    const divisions = await this.#locked(async (client, write) => {
      const copies: CampaignCopy[][] = [];
      for (const repair of this.repairs) copies.push(await repair.campaigns());
      const rows = await readRows(this.deps.database, client);
      const buckets = this.repairs.flatMap(({ deps: { cursor } }, i) =>
        (copies[i] ?? []).flatMap((copy) => (copy.part ? [{ copy, part: copy.part, shard: cursor.shard }] : [])),
      );
      const planned = planDivisions(rows, buckets, bucketsOf);
      for (const [i, repair] of this.repairs.entries()) repair.compare(copies[i] ?? [], rows);
      if (dryRun) return planned;
      await write();
      const known = new Set<number>(rows.campaigns.map(({ no }) => no));
      created = copies.flat().filter(({ no }) => !known.has(no));
      const issueCodes = await this.#announceCodes(client, created);
      for (const repair of this.repairs) await repair.writeHeads(client);
      for (const plan of planned) await writeDivision(client, plan, this.repairs[0]?.nowMs ?? 0);
      for (const repair of this.repairs) await repair.markLostRows(client);
      await issueCodes();
      return planned;
    });
    // Processes may have cached that these have no terms.
    for (const { product } of created) await this.deps.redis.publish(keys.termsNotifications, product);
    return divisions;
  }

  /**
   * Announces the codes of campaigns that are created again, so that no filter refuses them (decision 11).
   * @returns issues them; call it when the campaigns exist, before the commit
   */
  async #announceCodes(client: Queryable, campaigns: readonly CampaignCopy[]): Promise<() => Promise<void>> {
    const codes = campaigns.flatMap(({ details: { id, code } }) => {
      const typed = normaliseCode(code ?? '');
      return typed.kind === 'code' ? [{ id, code: typed.code }] : [];
    });
    if (codes.length === 0) return async () => {};
    const table = new CodesTable(this.deps.database);
    await table.lockIssuing(client);
    const settled = await new CodeNotifications(this.deps.redis, LIMITS.codes).announce(codes.map(({ code }) => code));
    return async () => {
      for (const { id, code } of codes) await table.insertShared(id, code, client);
      await settled();
    };
  }

  async #finish(): Promise<void> {
    for (const repair of this.repairs) await repair.fillAnswers();
    for await (const events of this.deps.stream.entries(BATCH))
      await this.#locked(async (client, write) => {
        await write();
        await fillFromEvents(client, events);
      });
    for (const repair of this.repairs) await repair.markLost();
    await this.#locked(async (client, write) => {
      await write();
      for (const repair of this.repairs) await repair.finish(client);
    });
    for (const repair of this.repairs) await repair.announce();
  }

  /** One transaction with the locks of all shards. `write` must be called before rows are written. */
  #locked<Value>(work: (client: Queryable, write: () => Promise<void>) => Promise<Value>): Promise<Value> {
    const { database, cursor } = this.deps;
    return database.transaction(async (client) => {
      for (const repair of this.repairs) await repair.lock(client);
      return work(client, () => cursor.lockWrites(client));
    });
  }
}
