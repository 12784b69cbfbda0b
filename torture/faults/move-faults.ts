import { setTimeout as sleep } from 'node:timers/promises';
import type { ProductId } from '../../shared/domain/ids.js';
import { type ShardCount, shardOfProduct } from '../../shared/domain/shards.js';
import type { History } from '../history.js';
import type { Fault, FaultStage, Lane } from './fault.js';

const LANES: readonly Lane[] = ['moves'];
/** One try: the new shard may be away for a minute, and a process that stands still is waited for. */
const TRY_LIMIT_MS = 120_000;
/** How long it is repeated. Other faults end a try; 100 s of them have 30 s of calm. */
const REPEAT_MS = 180_000;
const REPEAT_AFTER_MS = 500;
/** The first moment at which a command is killed is before it has reached both engines. */
const KILLED_AFTER_MS = [400, 4_000] as const;

/** What operators do to the shards meanwhile. Divided campaigns do not move. */
export const MOVE_FAULTS: readonly Fault[] = [
  {
    name: 'move-campaign',
    about: 'a campaign is moved to another shard (`npm run reshard`), which is repeated until it is there',
    lanes: LANES,
    weight: 3,
    needsShards: true,
    strike: (stage) => move(stage, null),
  },
  {
    name: 'move-killed',
    about: 'as move-campaign, and the first command is killed (SIGKILL) on its way',
    lanes: LANES,
    weight: 2,
    needsShards: true,
    strike: (stage) => move(stage, stage.random.int(...KILLED_AFTER_MS)),
  },
];

async function move({ cluster, history, random }: FaultStage, killedAfterMs: number | null): Promise<void> {
  const created = history.calls.filter(({ kind, body }) => kind === 'create' && !('buckets' in (body as object)));
  const product = random.pick([...new Set(created.map((call) => call.product))]);
  const shards = cluster.options.shards as ShardCount;
  const shard = (lastPlace(history, product as ProductId, shards) + random.int(1, shards - 1)) % shards;
  const until = performance.now() + REPEAT_MS;
  for (let limitMs = killedAfterMs ?? TRY_LIMIT_MS; ; limitMs = TRY_LIMIT_MS) {
    const began = history.now();
    const { code, output } = await cluster.move(product, shard, limitMs);
    history.event({ what: 'move', product, shard, began, code, output });
    if (code === 0 || performance.now() > until) return;
    await sleep(REPEAT_AFTER_MS);
  }
}

/** Where a campaign is, unless there was no room for it in the shard of its product. */
function lastPlace({ events }: History, product: ProductId, shards: ShardCount): number {
  const last = events.findLast((event) => event.what === 'move' && event.product === product && event.code === 0);
  return last?.what === 'move' ? last.shard : shardOfProduct(product, shards);
}
