import { describe, expect, it } from '@jest/globals';
import { faultNamed } from '../../torture/faults/all-faults.js';
import { type PlannedFault, planFaults } from '../../torture/plan.js';
import { Random } from '../../torture/random.js';

const ROUND_MS = 100_000;
const USUAL = { faults: null, canReconcile: true, shards: 4, apis: 3 };
const planOf = (options: Parameters<typeof planFaults>[2]) =>
  Array.from({ length: 20 }, (_, seed) => planFaults(new Random(`torture-${seed}`), 3 * ROUND_MS, options));
const isMove = ({ lane }: PlannedFault) => lane === 'moves';

/** The engines that are set back one after the other within half a minute, with a move between them. */
function bothBack(plan: readonly PlannedFault[]): string[] {
  const setBacks = plan.filter(({ fault }) => faultNamed(fault).setsBack);
  return setBacks.flatMap((first, i) => {
    const second = setBacks[i + 1];
    if (!second || second.lane === first.lane || second.atMs - first.atMs > 30_000) return [];
    const between = plan.some((one) => isMove(one) && one.atMs >= first.atMs && one.atMs <= second.atMs);
    return between ? [`${first.lane}, ${second.lane}`] : [];
  });
}

describe('the plan of faults', () => {
  it('sets both engines back in either order, with a move between them', () => {
    for (const plan of planOf(USUAL))
      expect(bothBack(plan)).toEqual(expect.arrayContaining(['redis, postgres', 'postgres, redis']));
  });

  it('moves nothing in one shard, and strikes only processes that there are', () => {
    const lanesOf = (options: typeof USUAL) => new Set(planOf(options).flatMap((plan) => plan.map(({ lane }) => lane)));
    expect(lanesOf(USUAL)).toContain('moves');
    expect(lanesOf(USUAL)).toContain('api-3');
    const lanes = lanesOf({ ...USUAL, shards: 1, apis: 2 });
    expect(lanes).toContain('api-2');
    expect(lanes).not.toContain('moves');
    expect(lanes).not.toContain('api-3');
  });

  it('has only the faults that were named', () => {
    const named = planOf({ ...USUAL, faults: ['move-killed', 'redis-empty'] });
    expect(new Set(named.flat().map(({ fault }) => fault))).toEqual(new Set(['move-killed', 'redis-empty']));
  });
});
