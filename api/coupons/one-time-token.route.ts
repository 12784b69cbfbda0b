import { type Code, normaliseCode } from '../../shared/domain/codes.js';
import type { UserId } from '../../shared/domain/ids.js';
import { networkOf } from '../guards/caller/address.js';
import { defineRoute } from '../http/define-route.js';
import type { Route } from '../http/route.js';
import { validate } from '../http/validate.js';
import { codeNotFound } from './code-resolver.js';
import { oneTimeTokenContract, tokenQuery } from './coupon.contract.js';
import type { CouponDeps } from './coupon-deps.js';

/** GET /coupons/token. */
export function oneTimeTokenRoute({ door, shopper, oneTimeTokens, clock, tokenQuota, limits }: CouponDeps): Route {
  return defineRoute(oneTimeTokenContract, async (call) => {
    const { req, res } = call;
    const { code, user_id } = validate(tokenQuery, req.query);
    if (door.refuses(req, res, { user: user_id as UserId })) return;
    await shopper.identify(req, user_id);
    const rateLimit = await tokenQuota.take(networkOf(req));
    const expiresAt = Math.floor(clock.nowMs()) + limits.oneTimeTokenMs;
    // The route does not check whether the code was issued. Otherwise guessers could use it to find codes.
    const token = oneTimeTokens.sign(canonical(code), user_id, expiresAt);
    call.reply(200, { token, expires_at: new Date(expiresAt).toISOString() }, rateLimit);
  });
}

function canonical(typed: string): Code {
  const normalised = normaliseCode(typed);
  if (normalised.kind !== 'code') throw codeNotFound();
  return normalised.code;
}
