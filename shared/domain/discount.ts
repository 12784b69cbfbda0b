import { basisPointsOf, isAmount, type MinorUnits, partOf } from './money.js';

export type Discount =
  | { kind: 'percent'; percent: number }
  | { kind: 'amount'; amount: number; currency: string }
  | { kind: 'free_shipping' };

/** What is bought, before any discount. */
export type Cart = { subtotal: MinorUnits; currency: string };

/** Percentages first, so that they are of the whole price; then amounts; then what has no amount. */
const ORDER: { [Kind in Discount['kind']]: number } = { percent: 0, amount: 1, free_shipping: 2 };

export const orderOfKind = (discount: Discount): number => ORDER[discount.kind];

/** Whether it can be computed; stored terms may be older than the checks that operators meet today. */
export function isDiscount(discount: Discount): boolean {
  switch (discount.kind) {
    case 'percent':
      return basisPointsOf(discount.percent) !== null;
    case 'amount':
      return isAmount(discount.amount);
    case 'free_shipping':
      return true;
    default:
      return false;
  }
}

/**
 * What a discount takes off a price, in minor units of the cart's currency; never more than the price. Free shipping takes
 * off nothing that stands in a cart.
 * @throws RangeError when it is no discount (`isDiscount`)
 */
export function discountOn(price: MinorUnits, discount: Discount): MinorUnits {
  switch (discount.kind) {
    case 'percent': {
      const points = basisPointsOf(discount.percent);
      if (points === null) throw new RangeError(`no percentage: ${discount.percent}`);
      return partOf(price, points);
    }
    case 'amount':
      if (!isAmount(discount.amount)) throw new RangeError(`no amount: ${discount.amount}`);
      return Math.min(price, discount.amount) as MinorUnits;
    case 'free_shipping':
      return 0 as MinorUnits;
  }
}
