import { setTimeout as sleep } from 'node:timers/promises';
import type { ProductId } from '../../shared/domain/ids.js';
import { CampaignBuckets } from '../../shared/postgres/campaign-buckets.js';
import { CampaignsTable, type StoredCampaign } from '../../shared/postgres/campaigns.js';
import { readSharding } from '../../shared/postgres/installation.js';
import { RedemptionsTable } from '../../shared/postgres/redemptions.js';
import type { RedisGate } from '../../shared/redis/gate.js';
import { readInstallation } from '../../shared/redis/installation.js';
import type { Core, WorkerShard } from '../core.js';
import { PlannedOutages } from './planned-outages.js';
import { preheat } from './preheat.js';
import { Recovery } from './recovery.js';
import type { RecoveryDeps } from './recovery-deps.js';
import { RedisFill } from './redis-fill.js';
import type { BucketPartOf } from './restore-campaign.js';

/**
 * How long the start waits for Redis to be in service. If a datastore is away, the worker starts without it and begins
 * its work when the datastore is back.
 */
const SERVICE_WAIT_MS = 3_000;

export type Refilling = {
  /** Fills one campaign from Postgres; Redis is out of service meanwhile. */
  refill: (campaign: StoredCampaign, reason: string, bucket: number) => Promise<void>;
  /** Loads a campaign that a shard lacks, or the bucket of it that the shard has. */
  preheat: (campaign: StoredCampaign, shard: number) => Promise<void>;
};

type Persisting = {
  drain: RecoveryDeps['drain'];
  upTo: (journalId: string) => Promise<unknown>;
};

/**
 * Verifies each shard after every change of its server, and refills it from Postgres.
 * @param persists by shard
 */
export function recoveryModule(core: Core, persists: readonly Persisting[]): Refilling {
  const all = core.shards.all.map((shard) => createRecovery(core, shard, persists[shard.index] as Persisting));
  core.life.add('recovery of Redis', {
    async start() {
      for (const { recovery } of all) recovery.start();
      await inServiceWithin(
        core.shards.all.map(({ gate }) => gate),
        SERVICE_WAIT_MS,
      );
    },
    quiet: async () => void (await Promise.all(all.map(({ recovery }) => recovery.stop()))),
  });
  const of = (shard: number) => all[shard] as (typeof all)[number];
  return {
    refill: (campaign, reason, bucket) =>
      of(core.shards.of(campaign.productId, bucket).index).outages.refill(campaign, reason),
    preheat: (campaign, shard) => of(shard).preheat(campaign),
  };
}

/** Makes what recovers one shard. Only the command that moves campaigns calls it without starting it. */
export function createRecovery(
  { name, config, metrics, database, lockDatabase, shards }: Core,
  { index, log, redis, clock, gate, journal, histories, recovered, watch, sale, filler, cursor, isHere }: WorkerShard,
  persist: Persisting,
): { recovery: Recovery; outages: PlannedOutages; preheat: (campaign: StoredCampaign) => Promise<void> } {
  const campaigns = new CampaignsTable(database);
  const buckets = new CampaignBuckets(database);
  const partOf: BucketPartOf = async (campaign) => {
    const bucket = campaign.buckets > 1 ? shards.map.bucketOfRow(campaign, index) : null;
    return bucket === null ? null : buckets.part(campaign.id, bucket);
  };
  const deps: RecoveryDeps = {
    partOf,
    database,
    sale: filler,
    log,
    idempotencyTtlMs: config.idempotencyTtlMs,
    lockDatabase,
    processId: name,
    campaigns,
    places: {
      map: shards.map,
      isIn: (campaign) => shards.map.isIn(campaign, index),
      isLaterInRedis: async () => {
        const kept = await Promise.all(shards.all.map(({ filler }) => readInstallation(filler.scripts.redis)));
        const { version } = await readSharding(database);
        return kept.some((one) => one !== null && one.version > version);
      },
      elsewhere: (products) => elsewhere(shards.all, index, products),
    },
    cursor,
    histories,
    recovered,
    redemptions: new RedemptionsTable(database),
    journal,
    fill: new RedisFill(filler.scripts),
    watch,
    gate,
    drain: (upTo) => persist.drain(upTo),
    leaveServer: (reason) => redis.leaveServer(reason),
    nowMs: async () => {
      await clock.sample();
      return clock.nowMs();
    },
    metrics,
  };
  const outages = new PlannedOutages(deps);
  const refill = (campaign: StoredCampaign, reason: string) => outages.refill(campaign, reason);
  const drain = async () => void (await persist.upTo(await journal.lastId()));
  const recovery = new Recovery(deps);
  return {
    recovery,
    outages,
    preheat: (campaign) => preheat({ database, campaigns, partOf, sale, isHere, drain, refill }, campaign),
  };
}

/** Waits until all shards are in service, at most `limitMs`. */
async function inServiceWithin(gates: readonly RedisGate[], limitMs: number): Promise<void> {
  const until = performance.now() + limitMs;
  while (!gates.every((gate) => gate.isOpen) && performance.now() < until) await sleep(10);
}

/** Which of these campaigns a shard other than `index` has, in service or not. @throws EngineUnavailable */
async function elsewhere(
  shards: readonly WorkerShard[],
  index: number,
  products: readonly ProductId[],
): Promise<ReadonlySet<ProductId>> {
  const found = new Set<ProductId>();
  await Promise.all(
    shards.map(async ({ index: other, filler }) => {
      if (other === index) return;
      for (const product of products) if (await filler.reader.has(product)) found.add(product);
    }),
  );
  return found;
}
