import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { ConfigError, readCommandConfig } from '../shared/config/config.js';
import { LIMITS } from '../shared/config/limits.js';
import { FIRST_BUCKET } from '../shared/domain/buckets.js';
import { SHARD_COUNTS } from '../shared/domain/shards.js';
import { Lifecycle } from '../shared/observability/lifecycle.js';
import { createLog } from '../shared/observability/log.js';
import { CampaignsTable } from '../shared/postgres/campaigns.js';
import { readSharding } from '../shared/postgres/installation.js';
import { Database } from '../shared/postgres/pool.js';
import { keys } from '../shared/redis/keys.js';
import { keepInstallation } from '../shared/shards/keep-installation.js';
import { type Core, connect, type WorkerShard } from './core.js';
import type { Persist } from './persist/persist.js';
import { persistModule } from './persist/persist.module.js';
import type { PlannedOutages } from './recovery/planned-outages.js';
import { createRecovery } from './recovery/recovery.module.js';
import { RedisFill } from './recovery/redis-fill.js';
import {
  changeShards,
  clearOldShards,
  type OldShard,
  requireNoWorkers,
  requireShardsForBuckets,
  TooFewShards,
} from './reshard/change-shards.js';
import { moveCampaign } from './reshard/move-campaign.js';

/** `npm run reshard`: changes the number of shards, or moves one campaign (scripts/reshard.mjs has the usage). */
const REACHED_WITHIN_MS = 15_000;
const LOOK_AGAIN_MS = 20;

/** The command cannot be done as it was given, so a repetition does not help. */
class Mistake extends Error {}

const say = (line: string) => process.stdout.write(`${line}\n`);
const wanted = options();
const { config, installed, isLeft } = await configuration();
// Everything else that a worker logs is of no use here.
const log = createLog('reshard', 'error');
const life = new Lifecycle(log);
const core = await connect(config, log, life);
const persists = persistModule(core, { publish: () => {} });
const outages = core.shards.all.map((shard) => createRecovery(core, shard, persists[shard.index] as Persist).outages);
try {
  await life.start();
  if (wanted.kind === 'change') await change(wanted.shards);
  else await move(wanted.product, wanted.shard);
} catch (error) {
  const isHopeless = error instanceof Mistake || error instanceof TooFewShards;
  const advice = isHopeless ? '' : 'Repeat the command.\n';
  process.stderr.write(`stopped: ${error instanceof Error ? error.message : error}\n${advice}`);
  process.exitCode = 1;
} finally {
  await life.quiet();
  await life.stop().catch(() => {});
}
process.exit();

async function change(shards: number): Promise<void> {
  const old = core.shards.all.map(oldShard);
  if (isLeft) {
    say(`this installation has ${installed} shards; its old ones are removed from Redis first`);
    await clearOldShards(core.database, old, say);
    if (shards !== installed) throw new Error('the old shards are removed now');
  } else if (shards === installed) {
    return void say(`this installation has ${shards} shards already`);
  } else {
    await requireShardsForBuckets(core.database, shards);
    await requireNoWorkers(core.database, core.name);
    await changeShards(core.database, core.name, old, shards, say);
  }
  say(`Start the workers and then the APIs with SHARDS=${shards}. The workers fill the new shards from Postgres.`);
}

function oldShard({ index, filler }: WorkerShard): OldShard {
  const fill = new RedisFill(filler.scripts);
  return {
    retire: async () => (await (outages[index] as PlannedOutages).retire()).generation,
    keep: (installation) => keepInstallation(filler.scripts, installation),
    clear: async () => {
      const token = `${core.name}-left`;
      await fill.begin(token);
      for (const [no, product] of await filler.reader.directory()) await fill.removeCampaign(token, no, product);
      await fill.write(token, 'remove', [keys.journal, keys.directory]);
    },
  };
}

async function move(product: string, index: number): Promise<void> {
  if (isLeft) throw new Mistake(`first complete the change: npm run reshard -- --to ${installed}`);
  const campaign = await new CampaignsTable(core.database).find(product);
  if (!campaign) throw new Mistake(`there is no campaign for ${product}`);
  if (campaign.buckets > 1)
    throw new Mistake(`${product} is divided into ${campaign.buckets} buckets, which are in other shards already`);
  core.shards.map.replace(await readSharding(core.database));
  const from = core.shards.of(campaign.productId, FIRST_BUCKET);
  const to = core.shards.all[index];
  if (!to) throw new Mistake(`there is no shard ${index}: this installation has 0 to ${core.shards.all.length - 1}`);
  if (from === to) {
    await reached(to);
    // An earlier command may have been interrupted before it was there.
    if (!(await to.sale.reader.has(campaign.productId)))
      await (outages[index] as PlannedOutages).refill(campaign, 'its move was interrupted');
    return void say(`${product} is in shard ${index} already`);
  }
  await Promise.all([reached(from), reached(to)]);
  say(`${product} moves from shard ${from.index} to shard ${to.index}`);
  const [taken, given] = [outages[from.index], outages[to.index]] as [PlannedOutages, PlannedOutages];
  await moveCampaign(campaign, {
    processId: core.name,
    shards: installed,
    seen: () => core.shards.map.latest,
    from: {
      giveAway: (one, steps) => taken.giveAway(one, steps),
      histories: from.histories,
      aliveMs: () => from.watch.aliveMs,
    },
    to: { index, refill: (one, reason) => given.refill(one, reason) },
    keepInRedis: async (version) => {
      const all = core.shards.all.map(({ filler }) => keepInstallation(filler.scripts, { shards: installed, version }));
      await Promise.allSettled(all);
    },
    say,
  });
}

/** @throws Error when the shard is not in service */
async function reached({ index, gate }: WorkerShard): Promise<void> {
  const until = performance.now() + REACHED_WITHIN_MS;
  while (!gate.isOpen) {
    if (performance.now() > until) throw new Error(`shard ${index} is not in service: ${gate.reason}`);
    await sleep(LOOK_AGAIN_MS);
  }
}

/**
 * The configuration with the number of shards in Redis, whatever SHARDS says: those that the installation has, or those
 * that it has left and that are still to be removed.
 */
async function configuration(): Promise<{ config: Core['config']; installed: number; isLeft: boolean }> {
  try {
    const given = readCommandConfig();
    const database = new Database({
      url: given.databaseUrl,
      name: 'doorbuster-reshard',
      connections: 1,
      statementMs: 10_000,
      connectMs: LIMITS.commandConnectMs,
      onError: () => {},
    });
    const { shards, left } = await readSharding(database).finally(() => database.close());
    const config = { ...given, shards: (left ?? shards) as Core['config']['shards'] };
    return { config, installed: shards, isLeft: left !== null };
  } catch (error) {
    process.stderr.write(`${error instanceof ConfigError ? error.message : `Postgres: ${(error as Error).message}`}\n`);
    process.exit(2);
  }
}

function options(): { kind: 'change'; shards: number } | { kind: 'move'; product: string; shard: number } {
  try {
    const { values } = parseArgs({
      options: { to: { type: 'string' }, campaign: { type: 'string' }, 'to-shard': { type: 'string' } },
    });
    const { to, campaign, 'to-shard': shard } = values;
    const isAlone = campaign === undefined && shard === undefined;
    if (to !== undefined && isAlone && (SHARD_COUNTS as readonly number[]).map(String).includes(to))
      return { kind: 'change', shards: Number(to) };
    if (campaign !== undefined && to === undefined && shard !== undefined && /^\d+$/.test(shard))
      return { kind: 'move', product: campaign, shard: Number(shard) };
    process.stderr.write(
      `usage: npm run reshard -- --to ${SHARD_COUNTS.join('|')}\n       npm run reshard -- --campaign <product_id> --to-shard <n>\n`,
    );
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : error}\n`);
  }
  process.exit(2);
}
