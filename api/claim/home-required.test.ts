import { expect, test } from '@jest/globals';
import type { CampaignPolicy } from '../../shared/domain/campaign-policy.js';
import type { ProductId, UserId } from '../../shared/domain/ids.js';
import { regionOfUser } from '../../shared/domain/regions.js';
import { homeRequired } from './home-required.js';

const BOTH = ['us', 'eu'];
const users = Array.from({ length: 50 }, (_, i) => `user-${i}` as UserId);
const refusedBy = (own: string, regions: readonly string[] | null) => {
  const required = homeRequired(own, { of: () => ({ regions }) as CampaignPolicy });
  return users.filter((user) => {
    try {
      required('sneaker' as ProductId, user);
      return false;
    } catch {
      return true;
    }
  });
};

test('each user is served by one of the regions that sell a product together', () => {
  const ofEu = users.filter((user) => regionOfUser(user, BOTH) === 'eu');
  expect(ofEu.length).toBeGreaterThan(10);
  expect(refusedBy('us', BOTH)).toEqual(ofEu);
  expect(refusedBy('eu', BOTH)).toEqual(users.filter((user) => !ofEu.includes(user)));
});

test('a product of one region is sold to every user', () => {
  expect(refusedBy('us', null)).toEqual([]);
});
