import type { Route } from '../http/route.js';
import type { CouponParts } from './coupon-parts.js';
import { oneTimeTokenRoute } from './one-time-token.route.js';
import { redeemRoute } from './redeem.route.js';
import { validateRoute } from './validate.route.js';

/** POST /coupons/validate and /coupons/redeem, GET /coupons/token. */
export function couponRoutes(parts: CouponParts): Route[] {
  return [validateRoute(parts), redeemRoute(parts), oneTimeTokenRoute(parts)];
}
