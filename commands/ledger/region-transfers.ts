import type { RegionName } from '../../shared/domain/regions.js';

/** One side of a transfer, as a region has recorded it (RegionTransfer). */
export type Side = {
  transfer_id: string;
  direction: 'out' | 'in';
  /** The other region. */
  region: RegionName;
  units: number;
  status: string;
  /** RFC 3339 */
  created_at: string;
};

/** Units that transfers hold, have lost, or have in two regions at once; and transfers that need an operator. */
export type TransferSums = { in_transit: number; units_lost: number; units_duplicated: number; stuck: string[] };

/**
 * Compares both sides of all transfers of a product.
 * @param sides of each region that replied, by its name. A transfer with another region is not judged
 * @param since ms; of an earlier transfer the other side may not be listed any more, so that it is not missed
 */
export function compareTransfers(sides: ReadonlyMap<RegionName, readonly Side[]>, since = 0): TransferSums {
  const sums: TransferSums = { in_transit: 0, units_lost: 0, units_duplicated: 0, stuck: [] };
  for (const [region, own] of sides)
    for (const side of own) {
      const theirs = sides.get(side.region);
      const isListed = theirs !== undefined && Date.parse(side.created_at) >= since;
      const other = otherSide(side, region, theirs);
      if (side.status === 'stuck') sums.stuck.push(side.transfer_id);
      else if (side.direction === 'out') judge(side, other, isListed, sums);
      else if (side.status === 'arrived' && isListed && !other) sums.units_duplicated += side.units;
    }
  return sums;
}

function judge({ status, units }: Side, taken: Side | undefined, isListed: boolean, sums: TransferSums): void {
  const hasArrived = taken?.status === 'arrived';
  if (status === 'arrived') sums.units_lost += (isListed || taken) && !hasArrived ? units : 0;
  else if (status === 'in_transit') sums.in_transit += hasArrived ? 0 : units;
  else if (hasArrived) sums.units_duplicated += units;
  else if (status === 'returning') sums.in_transit += units;
}

function otherSide(side: Side, region: RegionName, theirs: readonly Side[] | undefined): Side | undefined {
  const direction = side.direction === 'out' ? 'in' : 'out';
  return theirs?.find(
    (one) => one.transfer_id === side.transfer_id && one.direction === direction && one.region === region,
  );
}
