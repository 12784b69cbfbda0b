import type { ProductId, UserId } from '../../shared/domain/ids.js';
import { regionOfUser } from '../../shared/domain/regions.js';
import { Problem } from '../../shared/errors/catalogue.js';
import type { RegionDirectory } from './region-directory.js';
import type { Regions } from './regions.js';

/** This region, and what it knows of its own campaigns. */
export type OwnCampaigns = Pick<Regions, 'own' | 'readAgain'> & {
  directory: Pick<RegionDirectory, 'hasOwn' | 'sellersOf'>;
};

/**
 * Refuses users whom another region serves. Their requests are forwarded before; a process that has not learnt yet that
 * several regions sell a product does not do so, and must not give such a user a second unit.
 * @returns a function that returns a promise when the campaign is new, or none, so that it has to be read first; it
 *   throws Problem 503
 */
export function homeRequired(regions: OwnCampaigns): (product: ProductId, user: UserId) => Promise<void> | null {
  const { own, directory } = regions;
  const assertHome = (product: ProductId, user: UserId): null => {
    const sellers = directory.sellersOf(product);
    if (sellers !== null && regionOfUser(user, sellers) !== own)
      throw unavailable('Another region sells this product to the user.');
    return null;
  };
  return (product, user) => {
    if (directory.hasOwn(product)) return assertHome(product, user);
    return regions.readAgain().then((isRead) => {
      // A campaign is in Postgres before it is in Redis. So if Postgres has none, the script finds none.
      if (!isRead) throw unavailable('It is not known which region sells this product to the user.');
      assertHome(product, user);
    });
  };
}

const unavailable = (detail: string) => new Problem('region_unavailable', detail, { retryAfterSeconds: 1 });
