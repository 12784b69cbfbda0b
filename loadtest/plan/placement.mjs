// How many nodes and shards a sale needs, and how many campaigns the busiest node has: a hash of its product places
// each campaign. Pure.

export const MOST_SHARDS = 64;
/** 16 shards are enough for 8 nodes (docs/configuration.md). */
const FEW_SHARDS = 16;
const NODES_OF_FEW_SHARDS = 8;
/** A cluster agrees on a failover only with three primaries. */
const LEAST_CLUSTER = 3;
/** More campaigns than this are counted by a bound instead of exactly, which would take seconds. */
const EXACT_CAMPAIGNS = 300;
const EVEN = 1e-9;
/** A plan holds for nine of ten sets of product ids. */
const SHARE_OF_SETS = 0.9;

/**
 * Chooses nodes and shards, so that the busiest node has its headroom.
 * @param {{ campaigns: number, nodes: number | null }} demand nodes: null = as many as are needed
 * @param {number} campaignCores cores that one campaign needs
 * @param {number} free share of a core that may be used
 * @returns {{ nodes: number, shards: number, busiest: number, likely: number, share: number, busy: number,
 *   evenOnly: boolean }} busiest: campaigns on the busiest node; likely: those that a hash puts there; share: its
 *   share of all decisions; busy: of its core; evenOnly: it holds only if campaigns are placed by hand
 */
export function placeCampaigns({ campaigns, nodes: asked }, campaignCores, free) {
  const most = Math.max(1, Math.floor(free / campaignCores + EVEN));
  const even = Math.min(Math.ceil(campaigns / most), MOST_SHARDS);
  const holds = (/** @type {number} */ nodes) => isLikely(most, campaigns, sharesOfNodes(shardsFor(nodes), nodes));
  let nodes = asked ?? even;
  let evenOnly = false;
  if (asked === null && nodes > 1) {
    nodes = Math.max(nodes, LEAST_CLUSTER);
    while (nodes < Math.min(MOST_SHARDS, 2 * even) && !holds(nodes)) nodes += 1;
    evenOnly = !holds(nodes);
    if (evenOnly) nodes = Math.max(even, LEAST_CLUSTER);
  }
  const shards = shardsFor(nodes);
  const likely = mostOnOne(campaigns, sharesOfNodes(shards, nodes));
  const busiest = evenOnly ? Math.ceil(campaigns / nodes) : likely;
  return { nodes, shards, busiest, likely, share: busiest / campaigns, busy: busiest * campaignCores, evenOnly };
}

/** The SHARDS of an installation. @param {number} nodes */
export function shardsFor(nodes) {
  if (nodes === 1) return 1;
  return nodes <= NODES_OF_FEW_SHARDS ? FEW_SHARDS : MOST_SHARDS;
}

/** @param {number} campaigns @param {readonly number[]} shares */
function mostOnOne(campaigns, shares) {
  if (campaigns <= EXACT_CAMPAIGNS) return busiestNode(campaigns, shares);
  const mean = campaigns * Math.max(...shares);
  // Chernoff's bound for a binomial number, for all nodes together.
  return Math.min(campaigns, Math.ceil(mean + Math.sqrt(3 * mean * Math.log(10 * shares.length))));
}

/** @param {number} most @param {number} campaigns @param {readonly number[]} shares */
function isLikely(most, campaigns, shares) {
  if (most >= campaigns) return true;
  if (campaigns > EXACT_CAMPAIGNS) return mostOnOne(campaigns, shares) <= most;
  return most * shares.length >= campaigns && chanceOfAtMost(most, campaigns, shares) >= SHARE_OF_SETS;
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
 * Returns the smallest number of campaigns that no node exceeds in nine of ten sets of product ids.
 * @param {number} campaigns
 * @param {readonly number[]} shares of the nodes, which sum to 1
 * @returns {number}
 */
export function busiestNode(campaigns, shares) {
  let [low, high] = [Math.ceil(campaigns / shares.length), campaigns];
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if (chanceOfAtMost(middle, campaigns, shares) >= SHARE_OF_SETS) high = middle;
    else low = middle + 1;
  }
  return low;
}

/**
 * The probability that no node gets more than `most` campaigns. Node after node takes its part of the campaigns that
 * are left, by the binomial distribution.
 * @param {number} most
 * @param {number} campaigns
 * @param {readonly number[]} shares
 */
export function chanceOfAtMost(most, campaigns, shares) {
  /** The probability that so many campaigns are left for the nodes that follow. @type {number[]} */
  let left = Array.from({ length: campaigns + 1 }, (_, count) => (count === campaigns ? 1 : 0));
  let rest = 1;
  for (const share of shares) {
    const part = Math.min(1, share / rest);
    rest -= share;
    /** @type {number[]} */
    const next = Array.from({ length: campaigns + 1 }, () => 0);
    for (const [count, chance] of left.entries()) {
      if (chance < 1e-15) continue;
      for (let taken = 0; taken <= Math.min(most, count); taken += 1) {
        next[count - taken] = Number(next[count - taken]) + chance * binomial(count, taken, part);
      }
    }
    left = next;
  }
  return Number(left[0]);
}

/** @param {number} trials @param {number} hits @param {number} chance of one */
function binomial(trials, hits, chance) {
  if (chance >= 1) return hits === trials ? 1 : 0;
  return Math.exp(
    logFactorial(trials) -
      logFactorial(hits) -
      logFactorial(trials - hits) +
      hits * Math.log(chance) +
      (trials - hits) * Math.log(1 - chance),
  );
}

const LOG_FACTORIALS = [0];
/** @param {number} value */
function logFactorial(value) {
  for (let next = LOG_FACTORIALS.length; next <= value; next += 1) {
    LOG_FACTORIALS.push(Number(LOG_FACTORIALS[next - 1]) + Math.log(next));
  }
  return Number(LOG_FACTORIALS[value]);
}
