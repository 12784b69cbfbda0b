import { expect, test } from '@jest/globals';
import { Balance, type BalanceDeps, elsewhereOf, giftOf, servedFirst } from './balance.js';

const units = (free: number | null, waiting = 0, confirmed_per_second = 0) => ({
  ...{ product_id: 'sneaker', status: 'open' as const, total: 100, held: 0, redeemed: 0, burned: 0 },
  ...{ free, waiting, confirmed_per_second, head_qty: null as number | null, nobody_there: false },
});
const group = (free: number, head_qty: number) => ({ ...units(free, 1), head_qty });

test.each([
  ['half of the free units go to more users who wait', units(100), units(0, 400), 50],
  ['not more than users wait', units(100), units(0, 7), 7],
  ['the last unit', units(1), units(0, 1), 1],
  ['one to a region with a group that needs more', units(100), units(3, 1), 1],
  ['none to a region with enough units', units(100), units(50, 0, 4), 0],
  ['what another region sells in ten seconds', units(100), units(10, 0, 4), 30],
  ['none of what this region sells in ten seconds', units(40, 0, 4), units(0, 100), 0],
  ['half of what is beyond', units(60, 0, 4), units(0, 100), 10],
  ['none while users wait here', units(5, 3), units(0, 100), 0],
  ['half to a region that has none left, although no user waits', units(100), units(0), 50],
  ['not its last unit to a region where no user waits', units(1), units(0), 0],
  ['none to a region whose last units may come back', units(100), { ...units(0), held: 1 }, 0],
  ['none of an unlimited stock', units(null), units(0, 9), 0],
  ['none to an unlimited stock', units(9), units(null, 9), 0],
  ['none of a paused campaign', { ...units(9), status: 'paused' as const }, units(0, 9), 0],
  ['none to a closed campaign', units(9), { ...units(0, 9), status: 'closed' as const }, 0],
])('a region gives %s', (_, own, theirs, gift) => {
  expect(giftOf(own, theirs, 10, false)).toBe(gift);
});

test.each([
  ['what a group there lacks, although a larger one waits here', group(3, 5), group(3, 4), false, 1],
  ['nothing to a larger group while both have enough for the one here', group(3, 4), group(3, 5), false, 0],
  ['nothing to as large a group, if this region is the first', group(3, 4), group(3, 4), true, 0],
  ['what as large a group lacks, if this region is not the first', group(3, 4), group(3, 4), false, 1],
  ['what a larger group lacks, if both have too few for the one here', group(1, 9), group(3, 4), true, 1],
  ['nothing that is too little for a group', group(1, 4), group(2, 4), false, 0],
  ['a unit to a user there, if both have too few for the group here', group(3, 5), group(0, 1), true, 1],
  ['nothing of an empty stock', group(0, 5), group(3, 4), false, 0],
  ['nothing to a group whose units came after its line was read', group(3, 9), group(5, 3), true, 0],
  ['nothing while its own users are about to get the units', { ...units(3, 1) }, group(3, 4), false, 0],
])('a region in which a user waits gives %s', (_, own, theirs, isFirst, gift) => {
  const [ownName, theirName] = isFirst ? ['eu', 'us'] : ['us', 'eu'];
  const first = servedFirst([
    { region: ownName, units: own },
    { region: theirName, units: theirs },
  ]);
  expect(giftOf(own, theirs, 10, first === theirName)).toBe(gift);
});

test('one of three groups is served, if all regions have enough for it together', () => {
  const regions = (quantities: readonly number[]) =>
    quantities.map((qty, i) => ({ region: ['us', 'eu', 'ap'][i] as string, units: group(1, qty) }));
  expect(servedFirst(regions([3, 3, 3]))).toBe('ap');
  expect(servedFirst(regions([3, 2, 4]))).toBe('eu');
  expect(servedFirst(regions([4, 5, 4]))).toBe(null);
  expect(
    servedFirst([...regions([2, 2, 3]), { region: 'me', units: { ...units(null), status: 'closed' as const } }]),
  ).toBe('eu');
  expect(giftOf(group(1, 3), group(1, 3), 10, true)).toBe(1);
});

test('users who are all away keep no units from another region, and get none', () => {
  const away = { ...units(5, 1), nobody_there: true };
  expect([giftOf(away, units(0, 3), 10, false), giftOf(units(9), away, 10, false)]).toEqual([3, 0]);
});

test('a closed product is not asked for again for a minute', async () => {
  const asked: (readonly string[])[] = [];
  const directory = { ownTogether: () => ['sneaker', 'coat'] };
  const balance = new Balance({
    regions: { refusal: null, directory, others: [] },
    units: {
      of: async (products: readonly string[]) => {
        asked.push(products);
        return products.map((product_id) => ({ product_id, status: product_id === 'coat' ? 'closed' : 'open' }));
      },
    },
    limits: { productsAtOnce: 100 },
  } as unknown as BalanceDeps);
  for (let look = 0; look <= 60; look++) await balance.run();
  expect(asked.slice(0, 3)).toEqual([['sneaker', 'coat'], ['sneaker'], ['sneaker']]);
  expect(asked[60]).toEqual(['sneaker', 'coat']);
});

const held = (total: number, held: number) => ({ ...units(0), total, held });
test.each([
  ['units while another region has free ones', units(0), [units(3)], 'units'],
  ['units while another region has some that are not paid', units(0), [units(0), held(5, 2)], 'units'],
  [
    'units while another region has paused its campaign',
    units(0),
    [{ ...units(3), status: 'paused' as const }],
    'units',
  ],
  ['nothing that is needed where this region has units', units(1), [units(3)], null],
  ['units while a group waits here', units(3, 1), [units(3), units(0)], 'units'],
  ['nothing of a region without limit', units(0, 2), [units(null), units(0)], null],
  ['units for a group that all regions have enough for', group(3, 5), [units(1), held(9, 1)], 'units'],
  ['nothing for a group that all regions have too few for', group(3, 6), [units(1), held(9, 1)], null],
  ['units for such a group while a region does not reply', group(3, 6), [units(1)], 'units'],
  ['units for users behind such a group where this region has none', group(0, 6), [units(1), units(0)], 'units'],
  ['nothing that is needed where this region has some that are not paid', held(5, 1), [units(3)], null],
  ['nothing that is needed while its line ends by itself', units(0), [units(0), units(0)], null],
  ['none when it gave its last ones away', held(0, 0), [units(0), units(0)], 'none'],
  ['nothing that is known while a region does not reply', held(0, 0), [units(0)], null],
  ['none when the others have closed', held(0, 0), [units(0), { ...units(3), status: 'closed' as const }], 'none'],
])('other regions have %s', (_, own, replies, elsewhere) => {
  expect(elsewhereOf(own, replies, 2)).toBe(elsewhere);
});
