import { expect, test } from '@jest/globals';
import { regionOfUser } from '../../shared/domain/regions.js';
import { RegionDirectory } from './region-directory.js';

const BOTH = ['us', 'eu'];
const userOf = (region: string): string => {
  for (let n = 0; ; n += 1) if (regionOfUser(`user-${n}`, BOTH) === region) return `user-${n}`;
};
const campaign = (productId: string, regions: readonly string[] | null, no = 1, code: string | null = null) => ({
  ...{ no, productId, code, regions },
});

test('a product that two regions sell belongs to the region of the user, and to any without a user', () => {
  const directory = new RegionDirectory('eu', ['us', 'eu', 'asia']);
  directory.add('us', [campaign('sneaker', BOTH, 1, 'SALE')], true);
  expect(directory.ownerOfProduct('sneaker', userOf('eu'))).toBe('eu');
  expect(directory.ownerOfProduct('sneaker', null)).toBe('us');
  directory.add('eu', [campaign('sneaker', BOTH, 9, 'SALE')], true);
  for (const region of BOTH) {
    expect(directory.ownerOfProduct('sneaker', userOf(region))).toBe(region);
    expect(directory.ownerOfSharedCode('SALE', userOf(region))).toBe(region);
  }
  expect(directory.ownerOfProduct('sneaker', null)).toBe('us');
  expect([directory.ownTogether(), directory.sellersOf('sneaker')]).toEqual([['sneaker'], BOTH]);
  expect(directory.isDisputed('sneaker')).toBe(false);
});

test.each([
  ['alone here, together there', null, BOTH],
  ['together here, alone there', BOTH, null],
  ['alone in both', null, null],
  ['with different regions', BOTH, ['us', 'asia']],
])('a product that is sold %s is disputed', (_, here, there) => {
  const directory = new RegionDirectory('eu', ['us', 'eu', 'asia']);
  directory.add('us', [campaign('sneaker', there)], true);
  expect(directory.isDisputed('sneaker')).toBe(false);
  directory.add('eu', [campaign('sneaker', here)], true);
  expect(directory.isDisputed('sneaker')).toBe(true);
  const decides = ['us', 'eu', 'asia'].map((own) => {
    const one = new RegionDirectory(own, ['us', 'eu', 'asia']);
    one.add('eu', [campaign('sneaker', here)], true);
    one.add('us', [campaign('sneaker', there)], true);
    return one.ownerOfProduct('sneaker', userOf('us'));
  });
  expect(decides).toEqual(['us', 'us', 'us']);
});

test('a product of one region belongs to it for every user', () => {
  const directory = new RegionDirectory('eu', ['us', 'eu']);
  directory.add('us', [campaign('sneaker', null)], true);
  expect(directory.ownerOfProduct('sneaker', userOf('eu'))).toBe('us');
  expect(directory.othersWith('sneaker')).toEqual([{ region: 'us', sellers: null }]);
});
