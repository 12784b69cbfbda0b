import { type Code, normaliseCode } from '../../shared/domain/codes.js';
import type { UserId } from '../../shared/domain/ids.js';
import { networkOf } from '../guards/address.js';
import { sendData } from '../http/exchange.js';
import type { Route } from '../http/route.js';
import { validate } from '../http/validate.js';
import { codeNotFound } from './code-finder.js';
import { tokenData, tokenQuery } from './coupon.contract.js';
import { type CouponParts, couponContract } from './coupon-parts.js';

/** GET /coupons/token. */
export function oneTimeTokenRoute({ door, shopper, oneTimeTokens, clock, tokenQuota, limits }: CouponParts): Route {
  return {
    contract: {
      ...couponContract('/token', {
        summary: 'A one-time token for a code and a user',
        description: 'For campaigns with `require_token`. Lives five minutes, is used up by the first redemption.',
        query: tokenQuery,
        answers: {
          200: { description: 'Send it as `token`.', data: tokenData, headers: ['RateLimit', 'RateLimit-Policy'] },
        },
      }),
      method: 'get',
      caller: 'shopper',
      errors: [
        'invalid_request',
        'unauthorized',
        'forbidden',
        'blocked',
        'code_not_found',
        'rate_limited',
        'temporarily_unavailable',
      ],
    },
    guard: (req, res) => door.refusesNetwork(req, res) || door.refusesFlood(req, res, tokenQuota),
    async handle(req, res) {
      const { code, user_id } = validate(tokenQuery, req.query);
      if (door.refuses(req, res, { user: user_id as UserId })) return;
      await shopper.identify(req, user_id);
      const rateLimit = await tokenQuota.take(networkOf(req));
      const expiresAt = Math.floor(clock.nowMs()) + limits.oneTimeTokenMs;
      // Whether the code was issued is not said here: a token would be a way to ask.
      const token = oneTimeTokens.sign(canonical(code), user_id, expiresAt);
      sendData(req, res, 200, { token, expires_at: new Date(expiresAt).toISOString() }, rateLimit);
    },
  };
}

function canonical(typed: string): Code {
  const normalised = normaliseCode(typed);
  if (normalised.kind !== 'code') throw codeNotFound();
  return normalised.code;
}
