import { expect, test } from '@jest/globals';
import type { PublicSale } from '../api/pages/public-sales.js';
import type { StandingData } from '../shared/contracts/standing.js';
import type { CampaignView, Standing } from './types.js';

/** Members of A that B lacks or has with another type. */
type Lacking<A, B> = {
  [Name in keyof A]-?: Name extends keyof B ? (B[Name] extends A[Name] ? never : Name) : Name;
}[keyof A];
type Differences<A, B> = Lacking<A, B> | Lacking<B, A>;
/** The client fills in what only the holder gets. */
type Filled<A> = { [Name in keyof A]-?: NonNullable<A[Name]> };

test('the types of the client have the members of the API, or this does not compile', () => {
  const campaign: Differences<CampaignView, PublicSale>[] = [];
  const standing: Differences<Filled<Standing>, Filled<StandingData>>[] = [];
  const none: never[][] = [campaign, standing];
  expect(none).toEqual([[], []]);
});
