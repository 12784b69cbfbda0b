import { describe, expect, it } from '@jest/globals';
import { mostOnNode, placeCampaigns, sharesOfNodes } from './placement.mjs';

describe('sharesOfNodes', () => {
  it('counts whole shards', () => {
    expect(sharesOfNodes(16, 4)).toEqual([0.25, 0.25, 0.25, 0.25]);
    expect(sharesOfNodes(16, 3).map((share) => share * 16)).toEqual([5, 5, 6]);
  });
});

describe('mostOnNode', () => {
  it('is the share of each shard times the shards of a node', () => {
    expect(mostOnNode(100, 16, 3)).toBe(42);
    expect(mostOnNode(100, 16, 4)).toBe(28);
    expect(mostOnNode(3, 16, 3)).toBe(3);
    expect(mostOnNode(100, 1, 1)).toBe(100);
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
