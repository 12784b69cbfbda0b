// Does a decision cost the busiest node of a Redis Cluster the same with 1, 2 and 3 nodes, and is the work even?
//
// Method: three clusters of real server processes with `appendfsync always` and without replicas, of 1, 2 and 3
// primaries. In each of them 100 campaigns lie in 16 shards (SHARDS=16), each in the shard that a hash of its
// product chooses. There is no API and no worker: callers call the SaleStore of each shard, over the connections of
// the product, which find the primary of their slot. Each campaign has four callers, each of which makes its next
// checkout when the last one has returned, and gets 120 checkouts a round. So the calls that Redis gets have the same
// size in each cluster. The clusters run in turn, in another order in each round, and the first round warms up. The
// result is the CPU of a node by the kernel's accounting, divided by the decisions of its own campaigns, as the median
// of the rounds: of the busiest node, which is the one with the most campaigns, and of the dearest one. The generator
// does not sleep, because the kernel would charge Redis for waking it.
//
// `busiest_over_mean` is the CPU of the busiest node over the mean of all nodes. It depends on the names of the
// campaigns, because a hash places them. So `names_above` is computed as well, without load: the share of 2,000 other
// sets of 100 names in which a node has more than 1.3 × the mean number of campaigns.
// Goals: CPU a decision of the busiest node within 15 %, no node above 1.3 × the mean.
// Last record (2026-11-23, 500719d, load 0.4): nodes [1,2,3], decisions_a_round 12000, rounds 9, busiest_us [40.5,43.1,42], dearest_us [40.5,43.1,45.3], ratio 1.07, campaigns [[100],[48,52],[30,28,42]], busiest_over_mean [1,1.05,1.23], names_above [0,0.001,0.122], met true
import { join } from 'node:path';
import slotOf from 'cluster-key-slot';
import { startCluster } from './cluster.mjs';
import { awake, connectStore, loadCampaign, reserveOne } from './decisions.mjs';
import { ROOT } from './environment.mjs';
import { cpuMicros, median, round } from './measure.mjs';

const NODES = [1, 2, 3];
const SHARDS = 16;
const CAMPAIGNS = 100;
const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 9);
const CALLERS = 4;
const CHECKOUTS_EACH = 120;
const SETS_OF_NAMES = 2_000;
const WITHIN = 1.15;
const UNEVEN = 1.3;

/** Starts its own clusters, and nothing else. */
export const needsEnvironment = false;

/**
 * @typedef {{ nodes: readonly import('./cluster.mjs').ClusterNode[], campaigns: readonly Placed[],
 *   micros: number[][], stop: () => Promise<void> }} Stage micros: CPU of each round, by node
 * @typedef {{ product: string, store: import('./decisions.mjs').Store, node: number }} Placed
 */

/** @param {null} _environment @param {(text: string) => void} say @param {string} [root] */
export async function run(_environment, say, root = ROOT) {
  /** @type {typeof import('../../shared/domain/shards.js')} */
  const shards = await import(join(root, 'dist/shared/domain/shards.js'));
  /** @type {Stage[]} */
  const stages = [];
  try {
    for (const count of NODES) stages.push(await openStage(count, root, shards));
    for (const stage of stages) await oneRound(stage, 'warm-up');
    for (let i = 0; i < ROUNDS; i += 1) {
      for (let turn = 0; turn < stages.length; turn += 1) {
        const stage = /** @type {Stage} */ (stages[(i + turn) % stages.length]);
        stage.micros.push(await oneRound(stage, String(i)));
      }
      const last = stages.map((stage) =>
        costsOf(stage, -1)
          .map((cost) => round(cost))
          .join(' '),
      );
      say(`round ${i + 1}: ${last.map((costs, at) => `${NODES[at]}: ${costs} µs`).join(', ')}`);
    }
    return figuresOf(stages, shards);
  } finally {
    for (const stage of stages) await stage.stop();
  }
}

/**
 * Starts a cluster and opens the campaigns in it.
 * @param {number} count of nodes
 * @param {string} root
 * @param {typeof import('../../shared/domain/shards.js')} shards
 * @returns {Promise<Stage>}
 */
async function openStage(count, root, { shardPrefix, shardOfProduct }) {
  const cluster = await startCluster(count);
  /** @type {import('./decisions.mjs').Store[]} */
  const stores = [];
  const stop = async () => {
    for (const store of stores) store.close();
    await cluster.stop();
  };
  try {
    const prefixes = Array.from({ length: SHARDS }, (_, shard) => shardPrefix(shard, SHARDS, true));
    for (const prefix of prefixes) {
      const store = await connectStore(root, cluster.url, prefix);
      stores.push(store);
      await store.begin();
    }
    /** @type {Placed[]} */
    const campaigns = [];
    for (let no = 1; no <= CAMPAIGNS; no += 1) {
      const product = `cluster-nodes-${no}`;
      const shard = shardOfProduct(/** @type {never} */ (product), SHARDS);
      const slot = slotOf(String(prefixes[shard]));
      const node = cluster.nodes.findIndex(({ from, to }) => slot >= from && slot <= to);
      const store = /** @type {import('./decisions.mjs').Store} */ (stores[shard]);
      await loadCampaign(store, no, product);
      campaigns.push({ product, store, node });
    }
    return { nodes: cluster.nodes, campaigns, micros: [], stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** @param {Stage} stage @param {string} name of the round @returns {Promise<number[]>} CPU of each node, µs */
async function oneRound({ nodes, campaigns }, name) {
  const expiresAtSeconds = Math.floor(Date.now() / 1000) + 30;
  const before = nodes.map(({ pid }) => cpuMicros(pid));
  await awake(() =>
    Promise.all(
      campaigns.flatMap(({ product, store }) => {
        let left = CHECKOUTS_EACH;
        return Array.from({ length: CALLERS }, async () => {
          while (left > 0) {
            left -= 1;
            await reserveOne(store, product, `${name}-${left}`, expiresAtSeconds);
          }
        });
      }),
    ),
  );
  return nodes.map(({ pid }, i) => cpuMicros(pid) - Number(before[i]));
}

/** The number of campaigns on each node. @param {Stage} stage */
const campaignsOn = ({ nodes, campaigns }) =>
  nodes.map((_, node) => campaigns.filter((one) => one.node === node).length);

/** CPU of a decision on each node, µs. @param {Stage} stage @param {number} at the round */
function costsOf(stage, at) {
  const counts = campaignsOn(stage);
  return (stage.micros.at(at) ?? []).map((micros, node) => micros / (Number(counts[node]) * CHECKOUTS_EACH));
}

/** @param {readonly Stage[]} stages @param {typeof import('../../shared/domain/shards.js')} shards */
function figuresOf(stages, shards) {
  const each = stages.map((stage) => {
    const counts = campaignsOn(stage);
    const costs = counts.map((_, node) => median(stage.micros.map((_, at) => Number(costsOf(stage, at)[node]))));
    const total = counts.map((_, node) => median(stage.micros.map((micros) => Number(micros[node]))));
    const mean = total.reduce((sum, micros) => sum + micros, 0) / total.length;
    return {
      counts,
      busiest: Number(costs[counts.indexOf(Math.max(...counts))]),
      dearest: Math.max(...costs),
      overMean: Math.max(...total) / mean,
    };
  });
  const busiest = each.map((one) => one.busiest);
  const ratio = Math.max(...busiest) / Math.min(...busiest);
  const overMean = each.map((one) => one.overMean);
  return {
    nodes: NODES,
    decisions_a_round: CAMPAIGNS * CHECKOUTS_EACH,
    rounds: ROUNDS,
    busiest_us: busiest.map((cost) => round(cost)),
    dearest_us: each.map((one) => round(one.dearest)),
    ratio: round(ratio, 2),
    campaigns: each.map((one) => one.counts),
    busiest_over_mean: overMean.map((one) => round(one, 2)),
    names_above: NODES.map((count) => round(unevenNames(count, shards), 3)),
    goal: 'CPU a decision of the busiest node within 15 %, no node above 1.3 × the mean',
    met: ratio <= WITHIN && Math.max(...overMean) <= UNEVEN,
  };
}

/**
 * The share of sets of names in which one node has more than 1.3 × the mean number of campaigns.
 * @param {number} count of nodes
 * @param {typeof import('../../shared/domain/shards.js')} shards
 */
function unevenNames(count, { shardPrefix, shardOfProduct }) {
  const slots = Array.from({ length: SHARDS }, (_, shard) => slotOf(shardPrefix(shard, SHARDS, true)));
  let uneven = 0;
  for (let set = 0; set < SETS_OF_NAMES; set += 1) {
    const counts = Array.from({ length: count }, () => 0);
    for (let i = 0; i < CAMPAIGNS; i += 1) {
      const shard = shardOfProduct(/** @type {never} */ (`set-${set}-campaign-${i}`), SHARDS);
      const node = Math.floor((Number(slots[shard]) * count) / 16_384);
      counts[node] = Number(counts[node]) + 1;
    }
    if (Math.max(...counts) > UNEVEN * (CAMPAIGNS / count)) uneven += 1;
  }
  return uneven / SETS_OF_NAMES;
}
