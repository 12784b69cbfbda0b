// How many nodes and shards a sale needs, and how many campaigns the busiest node has. Pure.

export const MOST_SHARDS = 64;
/** 16 shards are enough for 8 nodes (docs/configuration.md). */
const FEW_SHARDS = 16;
const NODES_OF_FEW_SHARDS = 8;
/** A cluster agrees on a failover only with three primaries. */
const LEAST_CLUSTER = 3;
const EVEN = 1e-9;

/**
 * Chooses nodes and shards, so that the busiest node has its headroom.
 * @param {{ campaigns: number, nodes: number | null }} demand nodes: null = as many as are needed
 * @param {number} campaignCores cores that one campaign needs
 * @param {number} free share of a core that may be used
 * @returns {{ nodes: number, shards: number, busiest: number, most: number, share: number, busy: number,
 *   evenOnly: boolean }} busiest: campaigns on the busiest node; most: those that it may get; share: its share of all
 *   decisions; busy: of its core; evenOnly: it holds only if campaigns are placed by hand
 */
export function placeCampaigns({ campaigns, nodes: asked }, campaignCores, free) {
  const fits = Math.max(1, Math.floor(free / campaignCores + EVEN));
  const even = Math.min(Math.ceil(campaigns / fits), MOST_SHARDS);
  const holds = (/** @type {number} */ nodes) => mostOnNode(campaigns, shardsFor(nodes), nodes) <= fits;
  let nodes = asked ?? even;
  let evenOnly = false;
  if (asked === null && nodes > 1) {
    nodes = Math.max(nodes, LEAST_CLUSTER);
    while (nodes < Math.min(MOST_SHARDS, 2 * even) && !holds(nodes)) nodes += 1;
    evenOnly = !holds(nodes);
    if (evenOnly) nodes = Math.max(even, LEAST_CLUSTER);
  }
  const shards = shardsFor(nodes);
  const most = mostOnNode(campaigns, shards, nodes);
  const busiest = evenOnly ? Math.ceil(campaigns / nodes) : most;
  return { nodes, shards, busiest, most, share: busiest / campaigns, busy: busiest * campaignCores, evenOnly };
}

/** The SHARDS of an installation. @param {number} nodes */
export function shardsFor(nodes) {
  if (nodes === 1) return 1;
  return nodes <= NODES_OF_FEW_SHARDS ? FEW_SHARDS : MOST_SHARDS;
}

/**
 * The share of all campaigns that each node has on average: shards are whole, so 16 of them lie on 3 nodes as 6, 5, 5.
 * @param {number} shards
 * @param {number} nodes not more than shards
 * @returns {number[]}
 */
export function sharesOfNodes(shards, nodes) {
  return Array.from(
    { length: nodes },
    (_, node) => (Math.floor(((node + 1) * shards) / nodes) - Math.floor((node * shards) / nodes)) / shards,
  );
}

/**
 * The most campaigns that a node can have: each new one goes to a shard that has less than its share of the live ones
 * (api/admin/campaign-placement.ts), and a node may have all of the shards that have more.
 * @param {number} campaigns
 * @param {number} shards
 * @param {number} nodes
 * @returns {number}
 */
export function mostOnNode(campaigns, shards, nodes) {
  const shardsOfNode = Math.max(...sharesOfNodes(shards, nodes)) * shards;
  return Math.min(campaigns, Math.round(shardsOfNode) * Math.ceil(campaigns / shards));
}
