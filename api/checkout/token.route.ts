import type { Request } from 'express';
import { z } from 'zod';
import { LIMITS } from '../../shared/config/limits.js';
import type { DeviceId } from '../../shared/domain/ids.js';
import type { RedisClock } from '../../shared/redis/redis-clock.js';
import { networkOf } from '../guards/address.js';
import type { Attestation } from '../guards/attestation.js';
import type { Bans } from '../guards/bans.js';
import { derivedDevice, namedDevice } from '../guards/fingerprint.js';
import type { Quota } from '../guards/quotas.js';
import { sendData } from '../http/exchange.js';
import { externalId } from '../http/fields.js';
import type { Route, RouteContract } from '../http/route.js';
import { validate } from '../http/validate.js';

const tokenQuery = z.object({ device_fp: externalId.optional() });

const tokenContract: RouteContract = {
  method: 'get',
  path: '/flash-sale/token',
  summary: 'A device token for checkout',
  description:
    'Without `device_fp` the device is taken from `X-Device-Fingerprint`, else derived from the request, and returned.',
  tag: 'flash sale',
  caller: 'anyone',
  query: tokenQuery,
  answers: {
    200: {
      description: 'Lives 30 s; clocks may differ by 30 s.',
      data: z.object({ attestation: z.string(), expires_at: z.int().describe('Unix seconds'), device_fp: z.string() }),
    },
  },
  errors: ['invalid_request', 'blocked', 'rate_limited', 'temporarily_unavailable'],
};

export type TokenRouteParts = { attestation: Attestation; bans: Bans; clock: RedisClock; quota: Quota };

/** GET /flash-sale/token. The secret never leaves the server; issuing is limited per network. */
export function tokenRoute({ attestation, bans, clock, quota }: TokenRouteParts): Route {
  return {
    contract: tokenContract,
    async handle(req, res) {
      const network = networkOf(req);
      bans.admit({ network });
      const device = deviceOf(req);
      bans.admit({ device });
      const rateLimit = await quota.take(network);
      const expiresAt = Math.floor(clock.nowMs() / 1000) + LIMITS.attestationLifeSeconds;
      sendData(
        req,
        res,
        200,
        { attestation: attestation.sign(device, expiresAt), expires_at: expiresAt, device_fp: device },
        rateLimit,
      );
    },
  };
}

function deviceOf(req: Request): DeviceId {
  const { device_fp } = validate(tokenQuery, req.query);
  return (device_fp as DeviceId | undefined) ?? namedDevice(req) ?? derivedDevice(req);
}
