import { basisPointsOf, isAmount, type MinorUnits, partOf } from './money.js';

export type Discount =
  | { kind: 'percent'; percent: number }
  | { kind: 'amount'; amount: number; currency: string }
  | { kind: 'free_shipping' };

/** The cart before any discount. */
export type Cart = { subtotal: MinorUnits; currency: string };

/**
 * The order of application: percentages first, so that they apply to the whole price; then amounts; then free shipping.
 */
const ORDER: { [Kind in Discount['kind']]: number } = { percent: 0, amount: 1, free_shipping: 2 };

export const orderOfKind = (discount: Discount): number => ORDER[discount.kind];

/** Whether the discount can be computed. Stored terms may be older than today's validation. */
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
 * How much a discount takes off a price, in minor units of the cart's currency, at most the price. Free shipping takes
 * off nothing, because shipping is not part of the cart.
 * @throws RangeError when the discount cannot be computed (`isDiscount`)
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
