import { expect, test } from '@jest/globals';
import { compareTransfers, type Side } from './region-transfers.js';

const side = (transfer_id: string, direction: 'in' | 'out', region: string, status: string, units = 5): Side => ({
  ...{ transfer_id, direction, region, status, units, created_at: '2026-11-28T09:00:00Z' },
});
const out = (id: string, status: string) => side(id, 'out', 'eu', status);
const into = (id: string, status: string) => side(id, 'in', 'us', status);
const compared = (us: Side[], eu: Side[]) =>
  compareTransfers(
    new Map([
      ['us', us],
      ['eu', eu],
    ]),
  );

test.each([
  ['arrived on both sides', 'arrived', 'arrived', [0, 0, 0]],
  ['on the way', 'in_transit', null, [5, 0, 0]],
  ['on the way, and being taken', 'in_transit', 'arriving', [5, 0, 0]],
  ['taken, which the giver does not know yet', 'in_transit', 'arrived', [0, 0, 0]],
  ['refused by the taker, and on the way back', 'returning', 'refused', [5, 0, 0]],
  ['back at the giver', 'returned', 'refused', [0, 0, 0]],
  ['not given', 'refused', null, [0, 0, 0]],
  ['arrived for the giver alone', 'arrived', null, [0, 5, 0]],
  ['arrived for the giver, refused by the taker', 'arrived', 'refused', [0, 5, 0]],
  ['on both sides at once', 'returned', 'arrived', [0, 0, 5]],
  ['never given, and taken', 'refused', 'arrived', [0, 0, 5]],
  ['on the way back, and taken', 'returning', 'arrived', [0, 0, 5]],
])('units that are %s', (_, given, taken, [transit, lost, duplicated]) => {
  const found = compared([out('a', given)], taken === null ? [] : [into('a', taken)]);
  expect(found).toEqual({ in_transit: transit, units_lost: lost, units_duplicated: duplicated, stuck: [] });
});

test('units that were taken without a giver are there twice', () => {
  expect(compared([], [into('a', 'arrived')])).toMatchObject({ units_duplicated: 5 });
});

test('a transfer with a region that was not asked is not judged', () => {
  const found = compareTransfers(new Map([['us', [out('a', 'arrived'), side('b', 'in', 'asia', 'arrived')]]]));
  expect(found).toEqual({ in_transit: 0, units_lost: 0, units_duplicated: 0, stuck: [] });
});

test('an old transfer whose other side is not listed any more is not judged', () => {
  const since = Date.parse('2026-11-28T09:00:01Z');
  const alone = new Map([
    ['us', [out('a', 'arrived')]],
    ['eu', [into('b', 'arrived')]],
  ]);
  expect(compareTransfers(alone, since)).toMatchObject({ units_lost: 0, units_duplicated: 0 });
  expect(compareTransfers(alone, since - 1_000)).toMatchObject({ units_lost: 5, units_duplicated: 5 });
});

test('transfers that an operator has to look at are named', () => {
  expect(compared([out('a', 'stuck')], [into('a', 'arrived')])).toMatchObject({ stuck: ['a'], units_duplicated: 0 });
});
