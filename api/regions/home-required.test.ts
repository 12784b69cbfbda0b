import { expect, test } from '@jest/globals';
import type { ProductId, UserId } from '../../shared/domain/ids.js';
import { regionOfUser } from '../../shared/domain/regions.js';
import { homeRequired } from './home-required.js';

const BOTH = ['us', 'eu'];
const product = 'sneaker' as ProductId;
const users = Array.from({ length: 50 }, (_, i) => `user-${i}` as UserId);
const ofEu = users.filter((user) => regionOfUser(user, BOTH) === 'eu');

type Known = readonly string[] | null | undefined;
/**
 * Those whom a region refuses.
 * @param known its regions for the product, undefined = it knows of no campaign
 * @param read the same once it has read; 'none' = there is no campaign, 'away' = Postgres does not reply
 */
async function refusedBy(own: string, known: Known, read: Known | 'away' | 'none' = 'away'): Promise<UserId[]> {
  let current = known;
  const required = homeRequired({
    own,
    directory: { hasOwn: () => current !== undefined, sellersOf: () => current ?? null },
    readAgain: async () => {
      if (read === 'away') return false;
      current = read === 'none' ? undefined : read;
      return true;
    },
  });
  const refused: UserId[] = [];
  for (const user of users) {
    current = known;
    const isServed = await Promise.resolve()
      .then(() => required(product, user))
      .then(
        () => true,
        () => false,
      );
    if (!isServed) refused.push(user);
  }
  return refused;
}

test('each user is served by one of the regions that sell a product together', async () => {
  expect(ofEu.length).toBeGreaterThan(10);
  expect(await refusedBy('us', BOTH)).toEqual(ofEu);
  expect(await refusedBy('eu', BOTH)).toEqual(users.filter((user) => !ofEu.includes(user)));
});

test('a product of one region is sold to every user', async () => {
  expect(await refusedBy('us', null)).toEqual([]);
});

test('a campaign that is not known yet is read before anything is sold', async () => {
  expect(await refusedBy('us', undefined, BOTH)).toEqual(ofEu);
  expect(await refusedBy('us', undefined, 'away')).toEqual(users);
  // The script finds none either.
  expect(await refusedBy('us', undefined, 'none')).toEqual([]);
});
