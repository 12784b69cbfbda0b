// How many buckets and nodes a campaign needs that one core cannot decide. Pure.
import { shardsFor, sharesOfNodes } from './placement.mjs';

/** A reservation id has room for so many buckets. */
export const MOST_BUCKETS = 16;
/**
 * What a user who joins the line of a divided campaign costs more: the call that asks for a number and the number come
 * before the call that joins. In a simulation of ten buckets a user took 112 µs instead of 66 µs.
 */
const CALLS_TO_JOIN = 1.7;
/** A cluster agrees on a failover only with three primaries. */
const LEAST_CLUSTER = 3;
const MOST_NODES = 16;
const EVEN = 1e-9;

/**
 * Chooses nodes and buckets, so that the busiest node has its headroom, wherever the first bucket is.
 * @param {{ campaigns: number, nodes: number | null, line: boolean }} demand nodes: null = as many as are needed
 * @param {number} campaignCores cores that one campaign would need in one bucket
 * @param {number} free share of a core that may be used
 * @returns {(import('./capacity.mjs').Placed & { buckets: number }) | null} null = more buckets than there can be
 */
export function placeBuckets({ campaigns, nodes: asked, line }, campaignCores, free) {
  const cores = campaignCores * (line ? CALLS_TO_JOIN : 1);
  const [from, to] = asked === null ? [LEAST_CLUSTER, MOST_NODES] : [asked, asked];
  let best = null;
  for (let nodes = from; nodes <= to; nodes += 1) {
    const shards = shardsFor(nodes);
    for (let buckets = 2; buckets <= Math.min(MOST_BUCKETS, shards); buckets += 1) {
      const most = mostOnOneNode(buckets, shards, nodes);
      // All campaigns may begin at the same shard.
      const busy = (campaigns * most * cores) / buckets;
      const share = most / buckets;
      const placed = {
        nodes,
        shards,
        busiest: campaigns * most,
        most: campaigns * most,
        share,
        busy,
        evenOnly: false,
      };
      if (busy <= free + EVEN) return { ...placed, buckets };
      if (best === null || busy < best.busy) best = { ...placed, buckets };
    }
  }
  return asked === null ? null : best;
}

/** The buckets of a campaign on the busiest node, for the worst first shard (shared/domain/buckets.ts). */
function mostOnOneNode(/** @type {number} */ buckets, /** @type {number} */ shards, /** @type {number} */ nodes) {
  const ends = sharesOfNodes(shards, nodes).map((share) => share * shards);
  let most = 0;
  for (let home = 0; home < shards; home += 1) {
    const perNode = ends.map(() => 0);
    for (let bucket = 0; bucket < buckets; bucket += 1) {
      let left = (home + Math.floor((bucket * shards) / buckets)) % shards;
      const node = ends.findIndex((width) => {
        left -= width;
        return left < 0;
      });
      perNode[node] = Number(perNode[node]) + 1;
    }
    most = Math.max(most, ...perNode);
  }
  return most;
}
