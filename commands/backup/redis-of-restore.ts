import { setTimeout as sleep } from 'node:timers/promises';
import { LIMITS } from '../../shared/config/limits.js';
import { isClean } from '../../shared/contracts/verdict.js';
import { Refused } from '../../shared/errors/faults.js';
import { archivedOf, compareCampaign } from '../../shared/image/compare-campaign.js';
import { CampaignsTable } from '../../shared/postgres/campaigns.js';
import type { Database } from '../../shared/postgres/pool.js';
import { readEpoch } from '../../shared/redis/epoch.js';
import type { RedisTarget } from '../../shared/redis/redis-target.js';
import { type CommandShard, CommandShards } from '../command-shards.js';
import { ledgerDeps } from '../ledger/ledger-deps.js';
import { verdictLine } from '../reconcile/report.js';

/** What becomes of the data of Redis, which are later than the backup. */
export type RedisChoice = 'keep' | 'discard';

const STATEMENT_MS = 120_000;
const LOOK_EVERY_MS = 500;
/** A worker reports twice a second. */
const WORKERS = `select count(*)::int as count from journal_processes
  where kind = 'worker' and seen_at > clock_timestamp() - interval '10 seconds'`;

/** Redis beside a Postgres that is restored. */
export class RedisOfRestore {
  private constructor(
    readonly target: RedisTarget,
    readonly database: Database,
    readonly shards: CommandShards,
    readonly opened: readonly CommandShard[],
    /** Whether a shard is in service, so that it has more than the backup. */
    readonly hasData: boolean,
  ) {}

  /** @throws Error when Redis cannot be reached */
  static async open(target: RedisTarget, database: Database): Promise<RedisOfRestore> {
    const shards = await CommandShards.of(target, database, {
      commandMs: STATEMENT_MS,
      connectMs: LIMITS.commandConnectMs,
    });
    const opened: CommandShard[] = [];
    let hasData = false;
    for (let index = 0; index < shards.map.count; index += 1) {
      const shard = await shards.open(index);
      opened.push(shard);
      if ((await readEpoch(shard.redis)) !== null) hasData = true;
    }
    return new RedisOfRestore(target, database, shards, opened, hasData);
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

  /** Empties the database of Redis. Processes return 503 until a worker has filled it. */
  async discard(): Promise<void> {
    for (const { redis } of this.opened) await redis.flushdb('ASYNC');
  }

  /** Waits until a worker has filled Redis. @returns false when no worker runs */
  async waitUntilFilled(print: (line: string) => void): Promise<boolean> {
    for (let announced = false; ; announced = true) {
      const epochs = await Promise.all(this.opened.map(({ redis }) => readEpoch(redis).catch(() => null)));
      if (epochs.every((epoch) => epoch !== null)) return true;
      const { rows } = await this.database.query<{ count: number }>(WORKERS);
      if (!rows[0]?.count) return false;
      if (!announced) print('Waiting for a worker to fill Redis.');
      await sleep(LOOK_EVERY_MS);
    }
  }

  /** Prints the ledger's verdict on each campaign that is in Redis. @returns the exit code */
  async judge(print: (line: string) => void): Promise<number> {
    const table = new CampaignsTable(this.database);
    let code = 0;
    for (const campaign of await table.toRestore()) {
      const deps = await ledgerDeps(this.database, this.shards, campaign);
      if ((await archivedOf(deps, campaign)).some((pass) => pass !== null)) continue;
      const verdict = await compareCampaign(deps, campaign);
      print(verdictLine(verdict));
      if (!isClean(verdict)) code = 1;
    }
    return code;
  }

  close(): void {
    this.shards.close();
  }
}
