import { type Code, normaliseCode } from '../../shared/domain/codes.js';
import type { UserId } from '../../shared/domain/ids.js';
import type { RedisClock } from '../../shared/redis/redis-clock.js';
import type { BlocklistGuard } from '../guards/abuse/blocklist-guard.js';
import type { ShopperIdentity } from '../guards/auth/shopper-identity.js';
import { networkOf } from '../guards/caller/address.js';
import type { Quota } from '../guards/limits/quotas.js';
import { defineRoute } from '../http/define-route.js';
import type { Route } from '../http/route.js';
import { validate } from '../http/validate.js';
import { codeNotFound } from './code-resolver.js';
import { oneTimeTokenContract, tokenQuery } from './coupon.contract.js';
import type { OneTimeTokens } from './one-time-token.js';

export type OneTimeTokenDeps = {
  blocklist: BlocklistGuard;
  shopper: ShopperIdentity;
  oneTimeTokens: OneTimeTokens;
  clock: RedisClock;
  tokenQuota: Quota;
  limits: { oneTimeTokenMs: number };
};

/** GET /coupons/token. */
export function oneTimeTokenRoute(deps: OneTimeTokenDeps): Route {
  const { blocklist, shopper, oneTimeTokens, clock, tokenQuota, limits } = deps;
  return defineRoute(oneTimeTokenContract, async (call) => {
    const { req, res } = call;
    const { code, user_id } = validate(tokenQuery, req.query);
    if (blocklist.refuses(req, res, { user: user_id as UserId })) return;
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
