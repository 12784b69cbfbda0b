import { z } from 'zod';
import { LIMITS } from '../../shared/config/limits.js';
import type { DeviceId } from '../../shared/domain/ids.js';
import type { RedisClock } from '../../shared/redis/redis-clock.js';
import { networkOf } from '../guards/address.js';
import type { Door } from '../guards/door.js';
import { derivedDevice, namedDevice } from '../guards/fingerprint.js';
import type { PolicyBook } from '../guards/policy-book.js';
import type { Quota } from '../guards/quotas.js';
import type { TokenIssuer } from '../guards/token-issuer.js';
import { sendData } from '../http/exchange.js';
import { challengeSolution, externalId } from '../http/fields.js';
import type { Route, RouteContract } from '../http/route.js';
import { validate } from '../http/validate.js';

export const TOKEN_PATH = '/flash-sale/token';

const tokenQuery = z.object({
  device_fp: externalId.optional(),
  product_id: externalId.optional().describe('the campaign it is for, where that one wants a proof of work'),
});

const tokenContract: RouteContract = {
  method: 'get',
  path: TOKEN_PATH,
  summary: 'A device token for checkout',
  description:
    'Without `device_fp` the device is taken from `X-Device-Fingerprint`, else derived from the request, and returned. ' +
    'A campaign with `limits.attestation_level: 1` wants a token of its own: name it in `product_id`, solve the `challenge` ' +
    'of the 403 and repeat the request with `X-Challenge-Solution`. Such a token serves one user.',
  tag: 'flash sale',
  caller: 'anyone',
  query: tokenQuery,
  headers: z.object({ 'x-challenge-solution': challengeSolution.optional() }),
  answers: {
    200: {
      description: 'Lives 30 s; clocks may differ by 30 s.',
      data: z.object({ attestation: z.string(), expires_at: z.int().describe('Unix seconds'), device_fp: z.string() }),
    },
  },
  errors: ['invalid_request', 'blocked', 'challenge_required', 'rate_limited', 'temporarily_unavailable'],
};

export type TokenRouteParts = {
  issuer: TokenIssuer;
  policies: PolicyBook;
  door: Door;
  clock: RedisClock;
  quota: Quota;
};

/** GET /flash-sale/token. The secret never leaves the server; issuing is limited per network. */
export function tokenRoute({ issuer, policies, door, clock, quota }: TokenRouteParts): Route {
  return {
    contract: tokenContract,
    async handle(req, res) {
      const { device_fp, product_id: product = '' } = validate(tokenQuery, req.query);
      const device = (device_fp as DeviceId | undefined) ?? namedDevice(req) ?? derivedDevice(req);
      if (door.refuses(req, res, { device })) return;
      const rateLimit = await quota.take(networkOf(req));
      const solution = req.headers['x-challenge-solution'];
      const expiresAt = Math.floor(clock.nowMs() / 1000) + LIMITS.attestationLifeSeconds;
      const request = { device, product, solution: typeof solution === 'string' ? solution : null };
      const level = policies.of(product).limits.attestationLevel ?? 0;
      const attestation = await issuer.issue(level, request, expiresAt);
      sendData(req, res, 200, { attestation, expires_at: expiresAt, device_fp: device }, rateLimit);
    },
  };
}
