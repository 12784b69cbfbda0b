import { setTimeout as sleep } from 'node:timers/promises';
import type { ProductId } from '../../shared/domain/ids.js';
import type { StoredCampaign } from '../../shared/postgres/campaigns.js';
import { lockShards, moveCampaign as recordMove } from '../../shared/postgres/installation.js';
import type { JournalHistories } from '../../shared/postgres/journal-histories.js';
import type { Queryable } from '../../shared/postgres/pool.js';
import { campaignKeys, keys } from '../../shared/redis/keys.js';

const LOOK_AGAIN_MS = 20;

/** See `PlannedOutages.giveAway`. */
type GiveAway = (
  keyNames: readonly string[],
  steps: {
    give: () => Promise<void>;
    record: (client: Queryable) => Promise<void>;
    learned: () => Promise<void>;
  },
) => Promise<void>;

export type MoveDeps = {
  processId: string;
  /** The number of shards. */
  shards: number;
  from: { giveAway: GiveAway; histories: Pick<JournalHistories, 'allKnowMap'>; aliveMs: () => number };
  to: { index: number; refill: (campaign: StoredCampaign, reason: string) => Promise<void> };
  say: (line: string) => void;
};

/**
 * Moves a campaign to another shard while the others go on. Its old shard is out of service meanwhile: its campaigns
 * get 503, as during a refill. The new shard gets the campaign from Postgres, and then all processes learn where it is,
 * before the old shard serves again. If the command is interrupted, the campaign is where Postgres says, a worker puts
 * the old shard into service, and the command can be repeated.
 */
export async function moveCampaign(
  campaign: StoredCampaign,
  { processId, shards, from, to, say }: MoveDeps,
): Promise<void> {
  const { productId } = campaign;
  let version = 0;
  await from.giveAway(recordsOf(productId), {
    give: async () => {
      say('its old shard is out of service, and Postgres has everything');
      await to.refill(campaign, 'it moves here');
      say('its new shard has it');
    },
    record: async (client) => {
      await lockShards(client, shards);
      version = await recordMove(client, productId, to.index);
    },
    learned: async () => {
      while (!(await from.histories.allKnowMap(version, processId, from.aliveMs()))) await sleep(LOOK_AGAIN_MS);
      say('every process knows that');
    },
  });
  say('its old shard is in service again');
}

/** The keys that a campaign leaves behind in its old shard. */
export function recordsOf(product: ProductId): string[] {
  return [...campaignKeys(product), keys.payments(product)];
}
