import type { RegionName } from '../../shared/domain/regions.js';
import { type FieldError, Problem } from '../../shared/errors/catalogue.js';
import { invalidFields } from '../http/validate.js';
import type { CampaignBody } from './campaign.contract.js';

/** This installation as one of several regions. */
export type OwnRegion = {
  name: RegionName;
  /** All regions, in the order of REGIONS. */
  names: readonly RegionName[];
  /** Whether every region has been reached since the start, so that `othersWith` is right. */
  knowsAll: () => boolean;
  /** Whether another region can be called now. */
  reaches: (region: RegionName) => boolean;
  /** The other regions that have a campaign for a product, each with those that it sells it with; null = alone. */
  othersWith: (product: string) => readonly { region: RegionName; sellers: readonly RegionName[] | null }[];
};
type Wanted = Pick<CampaignBody, 'product_id' | 'type' | 'buckets' | 'regions'>;

/**
 * The regions that are to sell a new campaign together, in the order of REGIONS: a user has the same one everywhere.
 * @param own null = this installation is the only one
 * @returns undefined = this one sells it alone
 * @throws Problem 503 if it is not known what the others sell, 400 if the list is not possible, 409 if another region
 *   sells the product and has not the same list: a user could get a unit in each
 */
export function sellersOf(wanted: Wanted, own: OwnRegion | null): RegionName[] | undefined {
  const errors = [...errorsOf(wanted, own)];
  if (errors.length > 0) throw invalidFields(...errors);
  if (own === null) return undefined;
  if (!own.knowsAll())
    throw new Problem('temporarily_unavailable', 'Not every region has been reached since the start.', {
      retryAfterSeconds: 1,
    });
  // Of a region that cannot be called it is not known whether it has another list by now.
  const away = wanted.regions?.find((name) => name !== own.name && !own.reaches(name));
  if (away !== undefined)
    throw new Problem('region_unavailable', `Region ${away} cannot be called.`, { retryAfterSeconds: 1 });
  const asked = wanted.regions && new Set(wanted.regions);
  const sellers = asked && own.names.filter((name) => asked.has(name));
  for (const { region, sellers: theirs } of own.othersWith(wanted.product_id))
    if (theirs === null || theirs.join() !== sellers?.join())
      throw new Problem(
        'campaign_conflict',
        `Region ${region} sells this product ${theirs ? `with \`regions\` ${theirs.join(', ')}` : 'alone'}. Give the same \`regions\` everywhere, or another product.`,
      );
  return sellers;
}

function* errorsOf({ regions, type, buckets }: Wanted, own: OwnRegion | null): Iterable<FieldError> {
  if (regions === undefined) return;
  const pointer = '#/regions';
  if (own === null) return yield { pointer, detail: 'requires REGION in the configuration of the API' };
  if (type !== 'shared')
    yield { pointer, detail: 'is only for campaigns of type `shared`: other codes have one region' };
  if (buckets > 1) yield { pointer, detail: 'is only for campaigns with one bucket' };
  if (!regions.includes(own.name)) yield { pointer, detail: `must include this region, ${own.name}` };
  if (new Set(regions).size !== regions.length) yield { pointer, detail: 'must not name a region twice' };
  for (const name of regions)
    if (!own.names.includes(name)) yield { pointer, detail: `\`${name}\` is none of REGIONS: ${own.names.join(', ')}` };
}
