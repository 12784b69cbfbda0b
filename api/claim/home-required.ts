import type { ProductId, UserId } from '../../shared/domain/ids.js';
import { type RegionName, regionOfUser } from '../../shared/domain/regions.js';
import { Problem } from '../../shared/errors/catalogue.js';
import type { PolicyCache } from '../guards/limits/policy-cache.js';

/**
 * Refuses users of other regions. Their requests are forwarded before; a process that has not learnt yet that several
 * regions sell a product does not do so, and must not give such a user a second unit.
 * @returns a function that throws Problem 503
 */
export function homeRequired(
  own: RegionName,
  policies: Pick<PolicyCache, 'of'>,
): (product: ProductId, user: UserId) => void {
  return (product, user) => {
    const { regions } = policies.of(product);
    if (regions !== null && regionOfUser(user, regions) !== own)
      throw new Problem('region_unavailable', 'Another region sells this product to the user.', {
        retryAfterSeconds: 1,
      });
  };
}
