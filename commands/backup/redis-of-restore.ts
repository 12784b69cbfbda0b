import { setTimeout as sleep } from 'node:timers/promises';
import { isClean } from '../../shared/contracts/verdict.js';
import { SHARD_COUNTS } from '../../shared/domain/shards.js';
import { Refused } from '../../shared/errors/faults.js';
import { archivedOf, compareCampaign } from '../../shared/image/compare-campaign.js';
import { CampaignsTable } from '../../shared/postgres/campaigns.js';
import type { Database } from '../../shared/postgres/pool.js';
import { readEpoch } from '../../shared/redis/epoch.js';
import { keys } from '../../shared/redis/keys.js';
import type { RedisTarget } from '../../shared/redis/redis-target.js';
import { ShardMap } from '../../shared/shards/shard-map.js';
import { CommandShards } from '../command-shards.js';
import { ledgerDeps } from '../ledger/ledger-deps.js';
import { verdictLine } from '../reconcile/report.js';

/** What becomes of the data of Redis, which are later than the backup. */
export type RedisChoice = 'keep' | 'discard';

const STATEMENT_MS = 120_000;
const CONNECTION = { commandMs: STATEMENT_MS };
const LOOK_EVERY_MS = 500;
/** SHARDS of each live worker, which reports twice a second for each of its shards. */
const WORKERS = `select distinct count(*)::int as shards from journal_processes where kind = 'worker'
  group by split_part(process_id, '/', 1) having max(seen_at) > clock_timestamp() - interval '10 seconds'`;
/**
 * Reports wait while the tables are restored, and each shard of a worker has one of its own. So who has reported is
 * known when nothing has changed for so long.
 */
const REPORTS_WITHIN_MS = 5_000;

/** Why Redis is not filled: no worker runs, or the workers have another SHARDS than the restored database. */
export type Unfilled = { workers: 'none' } | { workers: 'other'; shards: number; theirs: number };

/**
 * Redis beside a Postgres that is restored. Before, the database may be empty or have another number of shards than
 * Redis; afterwards it has that of the backup.
 */
export class RedisOfRestore {
  #shards: CommandShards | null = null;

  private constructor(
    readonly target: RedisTarget,
    readonly database: Database,
    /** Whether a shard of any number of shards has data, so that Redis has more than the backup. */
    readonly hasData: boolean,
  ) {}

  /** @throws Error when Redis cannot be reached */
  static async open(target: RedisTarget, database: Database): Promise<RedisOfRestore> {
    let hasData = false;
    for (const count of SHARD_COUNTS) {
      const some = new CommandShards(target, database, new ShardMap(count), CONNECTION);
      try {
        hasData ||= await hasAny(some);
      } finally {
        some.close();
      }
    }
    return new RedisOfRestore(target, database, hasData);
  }

  /** @throws Refused when Redis has data, and the caller did not say what becomes of them */
  refuseWithout(choice: RedisChoice | undefined): void {
    if (choice === 'discard' && this.target.kind === 'cluster') {
      throw new Refused('--redis discard does not empty a cluster; stop the service, empty its nodes, restore then');
    }
    if (!this.hasData || choice !== undefined) return;
    throw new Refused(
      'Redis has the sale up to now, which is later than the backup. Choose: --redis keep takes what the backup lacks ' +
        'from Redis; --redis discard empties this Redis database, and all since the backup is lost',
    );
  }

  /** The shards of the restored database. */
  async shards(): Promise<CommandShards> {
    this.#shards ??= await CommandShards.of(this.target, this.database, CONNECTION);
    return this.#shards;
  }

  /** Empties the database of Redis, all shards of it. Processes return 503 until a worker has filled it. */
  async discard(): Promise<void> {
    await (await (await this.shards()).open(0)).redis.flushdb('ASYNC');
  }

  /** Waits until a worker has filled Redis. @returns null when it is filled, else why it will not be */
  async waitUntilFilled(print: (line: string) => void): Promise<Unfilled | null> {
    const shards = await this.shards();
    const { count } = shards.map;
    const opened = [];
    for (let index = 0; index < count; index += 1) opened.push(await shards.open(index));
    let [since, seen] = [performance.now(), ''];
    for (let announced = false; ; announced = true) {
      const epochs = await Promise.all(opened.map(({ redis }) => readEpoch(redis).catch(() => null)));
      if (epochs.every((epoch) => epoch !== null)) return null;
      const { rows } = await this.database.query<{ shards: number }>(WORKERS);
      const now = JSON.stringify(rows);
      if (now !== seen) [since, seen] = [performance.now(), now];
      if (performance.now() - since > REPORTS_WITHIN_MS && rows.every((one) => one.shards !== count)) {
        const [first] = rows;
        return first ? { workers: 'other', shards: count, theirs: first.shards } : { workers: 'none' };
      }
      if (!announced) print('Waiting for a worker to fill Redis.');
      await sleep(LOOK_EVERY_MS);
    }
  }

  /** Prints the ledger's verdict on each campaign that is in Redis. @returns the exit code */
  async judge(print: (line: string) => void): Promise<number> {
    const table = new CampaignsTable(this.database);
    let code = 0;
    for (const campaign of await table.toRestore()) {
      const deps = await ledgerDeps(this.database, await this.shards(), campaign);
      if ((await archivedOf(deps, campaign)).some((pass) => pass !== null)) continue;
      const verdict = await compareCampaign(deps, campaign);
      print(verdictLine(verdict));
      if (!isClean(verdict)) code = 1;
    }
    return code;
  }

  close(): void {
    this.#shards?.close();
  }
}

/** Whether a shard is in service. The first one keeps a record of the installation also while it is filled. */
async function hasAny(shards: CommandShards): Promise<boolean> {
  const { redis } = await shards.open(0);
  if ((await readEpoch(redis)) !== null) return true;
  if ((await redis.exists(keys.installation)) === 0) return false;
  for (let index = 1; index < shards.map.count; index += 1)
    if ((await readEpoch((await shards.open(index)).redis)) !== null) return true;
  return false;
}
