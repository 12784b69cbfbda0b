import { setTimeout as sleep } from 'node:timers/promises';
import { type ShardCount, shardOfProduct } from '../../shared/domain/shards.js';
import { EngineUnavailable, Refused } from '../../shared/errors/faults.js';
import type { StoredCampaign } from '../../shared/postgres/campaigns.js';
import { lockShards, moveCampaign as recordMove } from '../../shared/postgres/installation.js';
import type { JournalHistories } from '../../shared/postgres/journal-histories.js';
import type { Queryable } from '../../shared/postgres/pool.js';

const LOOK_AGAIN_MS = 20;
/** How long the new shard may be out of service, for example because a worker fills it. */
const ARRIVES_WITHIN_MS = 60_000;

/** See `PlannedOutages.giveAway`. */
type Steps = Record<'arrive' | 'learned', () => Promise<void>> & { record: (client: Queryable) => Promise<void> };

export type MoveDeps = {
  processId: string;
  /** The number of shards. */
  shards: ShardCount;
  /** The latest version of the map that this process or Redis knows. */
  seen: () => number;
  from: {
    index: number;
    giveAway: (campaign: StoredCampaign, steps: Steps) => Promise<void>;
    histories: Pick<JournalHistories, 'allKnowMap'>;
    aliveMs: () => number;
  };
  to: { index: number; refill: (campaign: StoredCampaign, reason: string) => Promise<void> };
  /** Writes the version of the map to every shard that can be reached. */
  keepInRedis: (version: number) => Promise<void>;
  say: (line: string) => void;
};

/**
 * Moves a campaign to another shard while the others go on. Its old shard is out of service meanwhile: its campaigns
 * get 503, as during a refill. The move is recorded, the old shard loses the campaign, and the new one gets it from
 * Postgres. All processes learn where it is before the old shard serves again. If the command is interrupted, the
 * campaign is where Postgres says, a worker puts the old shard into service and loads the campaign, and the command can
 * be repeated.
 */
export async function moveCampaign(
  campaign: StoredCampaign,
  { processId, shards, seen, from, to, keepInRedis, say }: MoveDeps,
): Promise<void> {
  const { productId } = campaign;
  let version = 0;
  await from.giveAway(campaign, {
    record: async (client) => {
      say('its old shard is out of service, and Postgres has everything');
      await lockShards(client, shards, seen());
      const of = { shard: from.index, usual: shardOfProduct(productId, shards) };
      const recorded = await recordMove(client, productId, to.index, of);
      if (recorded === null) throw new Refused('another command has moved it meanwhile; nothing was changed');
      version = recorded;
    },
    arrive: async () => {
      await refilled(to, campaign);
      await keepInRedis(version);
      say('its new shard has it');
    },
    learned: async () => {
      while (!(await from.histories.allKnowMap(version, processId, from.aliveMs()))) await sleep(LOOK_AGAIN_MS);
      say('every process knows that');
    },
  });
  say('its old shard is in service again');
}

/** @throws EngineUnavailable when the new shard is not in service for a minute; a worker loads the campaign later */
async function refilled({ refill }: MoveDeps['to'], campaign: StoredCampaign): Promise<void> {
  const until = performance.now() + ARRIVES_WITHIN_MS;
  for (;;) {
    try {
      return await refill(campaign, 'it moves here');
    } catch (error) {
      if (!(error instanceof EngineUnavailable) || performance.now() > until) throw error;
      await sleep(LOOK_AGAIN_MS);
    }
  }
}
