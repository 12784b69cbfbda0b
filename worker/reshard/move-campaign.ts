import { setTimeout as sleep } from 'node:timers/promises';
import type { StoredCampaign } from '../../shared/postgres/campaigns.js';
import { lockShards, moveCampaign as recordMove } from '../../shared/postgres/installation.js';
import type { JournalHistories } from '../../shared/postgres/journal-histories.js';
import type { Queryable } from '../../shared/postgres/pool.js';

const LOOK_AGAIN_MS = 20;
/** How long the new shard may be out of service, for example because a worker fills it. */
const ARRIVES_WITHIN_MS = 60_000;

/** See `PlannedOutages.giveAway`. */
type Steps = Record<'prepare' | 'arrive' | 'learned', () => Promise<void>> & {
  record: (client: Queryable) => Promise<void>;
};
/** Puts a campaign into service whose records were restored. */
type Load = (token: null) => Promise<{ kind: string }>;

export type MoveDeps = {
  processId: string;
  /** The number of shards. */
  shards: number;
  /** The latest version of the map that Redis has shown. */
  seen: () => number;
  from: {
    giveAway: (campaign: StoredCampaign, steps: Steps) => Promise<void>;
    histories: Pick<JournalHistories, 'allKnowMap'>;
    aliveMs: () => number;
  };
  to: { index: number; prepare: (campaign: StoredCampaign) => Promise<Load> };
  /** Writes the version of the map to every shard that can be reached. */
  keepInRedis: (version: number) => Promise<void>;
  say: (line: string) => void;
};

/**
 * Moves a campaign to another shard while the others go on. Its old shard is out of service meanwhile: its campaigns
 * get 503, as during a refill. The new shard gets the records from Postgres, the move is recorded, the old shard loses
 * the campaign, and then the new one has it. All processes learn where it is before the old shard serves again. If the
 * command is interrupted, the campaign is where Postgres says, a worker puts the old shard into service and loads the
 * campaign, and the command can be repeated.
 */
export async function moveCampaign(
  campaign: StoredCampaign,
  { processId, shards, seen, from, to, keepInRedis, say }: MoveDeps,
): Promise<void> {
  const { productId } = campaign;
  let version = 0;
  let load: Load | null = null;
  await from.giveAway(campaign, {
    prepare: async () => {
      say('its old shard is out of service, and Postgres has everything');
      load = await to.prepare(campaign);
    },
    record: async (client) => {
      await lockShards(client, shards, seen());
      version = await recordMove(client, productId, to.index);
    },
    arrive: async () => {
      await keepInRedis(version);
      if (load) await arrived(load);
      say('its new shard has it');
    },
    learned: async () => {
      while (!(await from.histories.allKnowMap(version, processId, from.aliveMs()))) await sleep(LOOK_AGAIN_MS);
      say('every process knows that');
    },
  });
  say('its old shard is in service again');
}

/** @throws Error when the new shard is not in service for a minute; a worker loads the campaign later */
async function arrived(load: Load): Promise<void> {
  const until = performance.now() + ARRIVES_WITHIN_MS;
  for (;;) {
    const { kind } = await load(null);
    if (kind === 'loaded' || kind === 'known') return;
    if (performance.now() > until) throw new Error('its new shard is out of service');
    await sleep(LOOK_AGAIN_MS);
  }
}
