import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { readCommandConfig } from '../shared/config/config.js';
import { LIMITS } from '../shared/config/limits.js';
import { FIRST_BUCKET } from '../shared/domain/buckets.js';
import { SHARD_COUNTS } from '../shared/domain/shards.js';
import { Refused } from '../shared/errors/faults.js';
import { Lifecycle } from '../shared/observability/lifecycle.js';
import { createLog } from '../shared/observability/log.js';
import { CampaignsTable } from '../shared/postgres/campaigns.js';
import { lockShards, readSharding } from '../shared/postgres/installation.js';
import { keys } from '../shared/redis/keys.js';
import { keepInstallation } from '../shared/shards/keep-installation.js';
import { type Core, connect, type WorkerShard } from '../worker/core.js';
import type { Persist } from '../worker/persist/persist.js';
import { persistModule } from '../worker/persist/persist.module.js';
import type { PlannedOutages } from '../worker/recovery/planned-outages.js';
import { createRecovery } from '../worker/recovery/recovery.module.js';
import { RedisFill } from '../worker/recovery/redis-fill.js';
import {
  changeShards,
  clearOldShards,
  type OldShard,
  requireNoWorkers,
  requireShardsForBuckets,
} from '../worker/reshard/change-shards.js';
import { moveCampaign } from '../worker/reshard/move-campaign.js';
import { connectDatabase, reasonOf, runCommand, type Terminal } from './command.js';

const USAGE = `usage: npm run reshard -- --campaign <product_id> --to-shard <n>
       npm run reshard -- --to <number of shards>

With --campaign: moves one campaign to another shard while the sale goes on. Campaigns of its old and its new shard get 503
for a moment, those of the other shards do not.

With --to: changes the number of shards. Stop all workers first; the APIs reply 503 from the moment at which the command
runs. Then start the workers and the APIs with the new SHARDS, and with another REDIS_URL if Redis changes as well. The
workers fill the new shards from Postgres, about ten seconds for 200,000 people.

Both persist the journal before anything moves, so nothing is lost. An interrupted command can be repeated. REDIS_URL and
DATABASE_URL name the engines; without them those of \`npm start\`. Exit code 0 = done, 1 = refused or stopped, 2 = the
arguments are wrong, or an engine does not respond.
`;

const REACHED_WITHIN_MS = 15_000;
const LOOK_AGAIN_MS = 20;
const STATEMENT_MS = 10_000;

type Options = { kind: 'change'; shards: number } | { kind: 'move'; product: string; shard: number };

/** A worker that recovers shards on request, and does nothing else. */
class Resharding {
  readonly outages: readonly PlannedOutages[];

  constructor(
    readonly core: Core,
    readonly installed: number,
    /** Whether the shards of `core` are those that the installation has left, which are still to be removed. */
    readonly isLeft: boolean,
    readonly say: Terminal['print'],
  ) {
    const persists = persistModule(core, { publish: () => {} });
    this.outages = core.shards.all.map(
      (shard) => createRecovery(core, shard, persists[shard.index] as Persist).outages,
    );
  }

  async change(shards: number): Promise<void> {
    const old = this.core.shards.all.map((shard) => this.#oldShard(shard));
    if (this.isLeft) {
      this.say(`this installation has ${this.installed} shards; its old ones are removed from Redis first`);
      await clearOldShards(this.core.database, old, this.say);
      if (shards !== this.installed) throw new Error('the old shards are removed now');
    } else if (shards === this.installed) {
      return void this.say(`this installation has ${shards} shards already`);
    } else {
      await requireShardsForBuckets(this.core.database, shards);
      await requireNoWorkers(this.core.database, this.core.name);
      await changeShards(this.core.database, this.core.name, old, shards, this.say);
    }
    this.say(
      `Start the workers and then the APIs with SHARDS=${shards}. The workers fill the new shards from Postgres.`,
    );
  }

  #oldShard({ index, filler }: WorkerShard): OldShard {
    const fill = new RedisFill(filler.scripts);
    return {
      retire: () => (this.outages[index] as PlannedOutages).retire(),
      keep: (installation) => keepInstallation(filler.scripts, installation),
      clear: async () => {
        const token = `${this.core.name}-left`;
        await fill.begin(token);
        for (const [no, product] of await filler.reader.directory()) await fill.removeCampaign(token, no, product);
        await fill.write(token, 'remove', [keys.journal, keys.directory]);
      },
    };
  }

  async move(product: string, index: number): Promise<void> {
    if (this.isLeft) throw new Refused(`first complete the change: npm run reshard -- --to ${this.installed}`);
    const campaign = await new CampaignsTable(this.core.database).find(product);
    if (!campaign) throw new Refused(`there is no campaign for ${product}`);
    if (campaign.buckets > 1)
      throw new Refused(`${product} is divided into ${campaign.buckets} buckets, which are in other shards already`);
    await this.core.shards.map.read(this.core.database);
    const from = this.core.shards.of(campaign.productId, FIRST_BUCKET);
    const to = this.core.shards.all[index];
    if (!to)
      throw new Refused(`there is no shard ${index}: this installation has 0 to ${this.core.shards.all.length - 1}`);
    if (from === to) {
      await reached(to);
      // An earlier command may have been interrupted before it was there.
      if (!(await to.sale.reader.has(campaign.productId)))
        await (this.outages[index] as PlannedOutages).refill(campaign, 'its move was interrupted');
      return void this.say(`${product} is in shard ${index} already`);
    }
    await Promise.all([reached(from), reached(to)]);
    const { map } = this.core.shards;
    // No shard is taken out of service for a move that cannot be recorded.
    await lockShards(this.core.database, map.count, map.latest);
    this.say(`${product} moves from shard ${from.index} to shard ${to.index}`);
    const [taken, given] = [this.outages[from.index], this.outages[to.index]] as [PlannedOutages, PlannedOutages];
    await moveCampaign(campaign, {
      processId: this.core.name,
      shards: map.count,
      seen: () => map.latest,
      from: {
        index: from.index,
        giveAway: (one, steps) => taken.giveAway(one, steps),
        histories: from.histories,
        aliveMs: () => from.watch.aliveMs,
      },
      to: { index, refill: (one, reason) => given.refill(one, reason) },
      keepInRedis: async (version) => {
        const all = this.core.shards.all.map(({ filler }) =>
          keepInstallation(filler.scripts, { shards: this.installed, version }),
        );
        await Promise.allSettled(all);
      },
      say: this.say,
    });
  }
}

/** @throws Error when the shard is not in service */
async function reached({ index, gate }: WorkerShard): Promise<void> {
  const until = performance.now() + REACHED_WITHIN_MS;
  while (!gate.isOpen) {
    if (performance.now() > until) throw new Error(`shard ${index} is not in service: ${gate.reason}`);
    await sleep(LOOK_AGAIN_MS);
  }
}

/** The configuration with the number of shards in Redis, whatever SHARDS says. @throws ConfigError */
async function configuration(): Promise<{ config: Core['config']; installed: number; isLeft: boolean }> {
  const given = readCommandConfig();
  const database = connectDatabase('reshard', given.databaseUrl, STATEMENT_MS, 1);
  const { shards, left } = await readSharding(database).finally(() => database.close());
  const config = { ...given, shards: (left ?? shards) as Core['config']['shards'] };
  return { config, installed: shards, isLeft: left !== null };
}

await runCommand<Options>({
  usage: USAGE,
  parse(args) {
    const { values } = parseArgs({
      args,
      options: { to: { type: 'string' }, campaign: { type: 'string' }, 'to-shard': { type: 'string' } },
    });
    const { to, campaign, 'to-shard': shard } = values;
    if (to !== undefined && !(SHARD_COUNTS as readonly number[]).map(String).includes(to))
      throw new TypeError(`--to must be one of ${SHARD_COUNTS.join(', ')}`);
    if (shard !== undefined && !/^\d{1,2}$/.test(shard))
      throw new TypeError('--to-shard must be the number of a shard');
    if (to !== undefined && campaign === undefined && shard === undefined)
      return { kind: 'change', shards: Number(to) };
    return campaign !== undefined && to === undefined && shard !== undefined
      ? { kind: 'move', product: campaign, shard: Number(shard) }
      : null;
  },
  async run(options, { print, warn }) {
    const { config, installed, isLeft } = await configuration();
    // Everything else that a worker logs is of no use here.
    const log = createLog('reshard', 'error');
    const life = new Lifecycle(log);
    const core = await connect(config, log, life, LIMITS.commands.connectMs);
    const resharding = new Resharding(core, installed, isLeft, print);
    try {
      await life.start();
      if (options.kind === 'change') await resharding.change(options.shards);
      else await resharding.move(options.product, options.shard);
      return 0;
    } catch (error) {
      warn(`stopped: ${reasonOf(error)}`);
      if (!(error instanceof Refused)) warn('Repeat the command.');
      return 1;
    } finally {
      await life.quiet();
      await life.stop().catch(() => {});
    }
  },
});
