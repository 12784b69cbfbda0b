import type { Route } from '../http/route.js';
import type { CouponDeps } from './coupon-deps.js';
import { oneTimeTokenRoute } from './one-time-token.route.js';
import { redeemRoute } from './redeem.route.js';
import { validateRoute } from './validate.route.js';

/** POST /coupons/validate and /coupons/redeem, GET /coupons/token. */
export function couponRoutes(deps: CouponDeps): Route[] {
  return [validateRoute(deps), redeemRoute(deps), oneTimeTokenRoute(deps)];
}
