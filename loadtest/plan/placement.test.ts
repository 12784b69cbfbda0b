import { describe, expect, it } from '@jest/globals';
import type { ProductId } from '../../shared/domain/ids.js';
import { shardOfProduct } from '../../shared/domain/shards.js';
import { busiestNode, chanceOfAtMost, placeCampaigns, sharesOfNodes } from './placement.mjs';

describe('sharesOfNodes', () => {
  it('counts whole shards', () => {
    expect(sharesOfNodes(16, 4)).toEqual([0.25, 0.25, 0.25, 0.25]);
    expect(sharesOfNodes(16, 3).map((share) => share * 16)).toEqual([5, 5, 6]);
  });
});

describe('chanceOfAtMost', () => {
  it('is the share of all placements', () => {
    // Two campaigns on two nodes are apart in two of four placements; three are never apart.
    expect(chanceOfAtMost(1, 2, [0.5, 0.5])).toBeCloseTo(0.5, 12);
    expect(chanceOfAtMost(1, 3, [0.5, 0.5])).toBeCloseTo(0, 12);
    expect(chanceOfAtMost(3, 3, [0.2, 0.8])).toBeCloseTo(1, 12);
  });
});

describe('busiestNode', () => {
  it('agrees with the shards in which the service puts product ids', () => {
    const [sets, campaigns, nodes] = [400, 100, 3];
    const most = busiestNode(campaigns, sharesOfNodes(16, nodes));
    let within = 0;
    for (let set = 0; set < sets; set += 1) {
      const counts = [0, 0, 0];
      for (let i = 0; i < campaigns; i += 1) {
        const node = Math.floor((shardOfProduct(`sale-${set}-${i}` as ProductId, 16) * nodes) / 16);
        counts[node] = Number(counts[node]) + 1;
      }
      if (Math.max(...counts) <= most) within += 1;
    }
    expect(within / sets).toBeGreaterThan(0.85);
    expect(most).toBeLessThan(50);
  });
});

describe('placeCampaigns', () => {
  it('has three primaries at least, once it has more than one', () => {
    expect(placeCampaigns({ campaigns: 100, nodes: null }, 0.009, 0.7)).toMatchObject({ nodes: 3, shards: 16 });
    expect(placeCampaigns({ campaigns: 100, nodes: null }, 0.006, 0.7)).toMatchObject({ nodes: 1, shards: 1 });
  });

  it('takes as many shards as nodes need', () => {
    expect(placeCampaigns({ campaigns: 5_000, nodes: null }, 0.003, 0.7)).toMatchObject({
      shards: 64,
      evenOnly: false,
    });
  });

  it('keeps the nodes that are there', () => {
    const { nodes, busy, busiest } = placeCampaigns({ campaigns: 100, nodes: 2 }, 0.02, 0.7);
    expect([nodes, busy > 1]).toEqual([2, true]);
    expect(busiest).toBeGreaterThan(50);
  });
});
