import { Transfers } from '../../shared/buckets/transfers.js';
import { LIMITS } from '../../shared/config/limits.js';
import type { ProductId } from '../../shared/domain/ids.js';
import { CampaignBuckets } from '../../shared/postgres/campaign-buckets.js';
import type { Core } from '../core.js';
import { Rounds } from './rounds.js';

/** Decides which worker has a turn (RoundTurns). */
type Turns = { take(product: ProductId): Promise<boolean> };

/**
 * Serves the lines of divided campaigns, each in one worker at a time.
 * @param turns by shard
 */
export function roundsModule({ shards, sales, database, metrics, life, log }: Core, turns: readonly Turns[]): void {
  const rounds = new Rounds({
    sales,
    divided: () => shards.map.divided,
    hasTurn: (product) => {
      const all = Array.from({ length: shards.map.bucketsOf(product) }, (_, bucket) => shards.of(product, bucket));
      return takeTurn(product, all, turns);
    },
    transfers: new Transfers(sales, new CampaignBuckets(database), LIMITS.buckets),
    metrics,
    log,
    limits: { ...LIMITS.buckets, ...LIMITS.line },
  });
  life.add('rounds of divided campaigns', { start: () => rounds.start(), quiet: () => rounds.stop() });
}

/**
 * Takes the turn of a campaign from the first of its shards that responds, so that the line goes on while bucket 0 is
 * away. Two workers that take it from different shards do no harm.
 * @param shards those of the buckets, in their order. @param turns by shard
 * @returns whether this worker has the turn; false when no shard responds
 */
export async function takeTurn(
  product: ProductId,
  shards: readonly { index: number; gate: { isOpen: boolean } }[],
  turns: readonly Turns[],
): Promise<boolean> {
  for (const { index, gate } of shards) {
    if (!gate.isOpen) continue;
    const turn = await turns[index]?.take(product).catch(() => null);
    if (turn === true || turn === false) return turn;
  }
  return false;
}
