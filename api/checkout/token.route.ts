import type { Request, Response } from 'express';
import { LIMITS } from '../../shared/config/limits.js';
import type { DeviceId } from '../../shared/domain/ids.js';
import type { RedisClock } from '../../shared/redis/redis-clock.js';
import { networkOf } from '../guards/address.js';
import type { Door } from '../guards/door.js';
import { derivedDevice, namedDevice } from '../guards/fingerprint.js';
import type { PlatformProof } from '../guards/platform-proof.js';
import type { PolicyBook } from '../guards/policy-book.js';
import type { Quota } from '../guards/quotas.js';
import type { TokenIssuer } from '../guards/token-issuer.js';
import type { TokenStorm } from '../guards/token-storm.js';
import { sendData } from '../http/exchange.js';
import { readJson } from '../http/json-body.js';
import type { Route } from '../http/route.js';
import { validate } from '../http/validate.js';
import { provenTokenContract, tokenBody, tokenContract, tokenQuery } from './token.contract.js';

export type TokenRouteParts = {
  issuer: TokenIssuer;
  policies: PolicyBook;
  door: Door;
  storm: TokenStorm;
  clock: RedisClock;
  tokenQuota: Quota;
};

type Asked = {
  device_fp?: string | undefined;
  product_id?: string | undefined;
  solution: string | null;
  platform: PlatformProof | null;
};

/** GET and POST /flash-sale/token. The secret never leaves the server; issuing is limited per network. */
export function tokenRoutes(parts: TokenRouteParts): Route[] {
  const { issuer, policies, door, storm, clock, tokenQuota } = parts;

  async function issue(req: Request, res: Response, asked: Asked): Promise<void> {
    const { product_id: product = '', solution, platform } = asked;
    const device = (asked.device_fp as DeviceId | undefined) ?? namedDevice(req) ?? derivedDevice(req);
    if (door.refuses(req, res, { device })) return;
    const network = networkOf(req);
    const { fields, count } = await tokenQuota.takeCounted(network);
    const expiresAt = Math.floor(clock.nowMs() / 1000) + LIMITS.attestationLifeSeconds;
    const level = platform === null ? (policies.of(product).limits.attestationLevel ?? 0) : 2;
    const isUnderAttack = storm.isOn(count) && !door.bans.isAllowed({ device, network });
    const attestation = await issuer.issue(level, { device, product, solution, platform }, expiresAt, isUnderAttack);
    sendData(req, res, 200, { attestation, expires_at: expiresAt, device_fp: device }, fields);
  }

  return [
    {
      contract: tokenContract,
      handle(req, res) {
        const solution = req.headers['x-challenge-solution'];
        const asked = validate(tokenQuery, req.query);
        return issue(req, res, { ...asked, solution: typeof solution === 'string' ? solution : null, platform: null });
      },
    },
    {
      contract: provenTokenContract,
      async handle(req, res) {
        const { challenge_solution, platform, ...asked } = validate(tokenBody, await readJson(req));
        return issue(req, res, { ...asked, solution: challenge_solution ?? null, platform: platform ?? null });
      },
    },
  ];
}
