import { TOKEN_LIFE_MS } from '../../shared/domain/device-token.js';
import { Problem } from '../../shared/errors/catalogue.js';
import type { RedisClock } from '../../shared/redis/redis-clock.js';
import type { BlocklistGuard } from '../guards/abuse/blocklist-guard.js';
import type { TokenSurge } from '../guards/abuse/token-surge.js';
import type { PlatformProof } from '../guards/attestation/platform-proof.js';
import type { TokenIssuer } from '../guards/auth/token-issuer.js';
import { networkOf } from '../guards/caller/address.js';
import type { DerivedDevices } from '../guards/caller/fingerprint.js';
import type { LocalQuota } from '../guards/limits/local-quota.js';
import type { PolicyCache } from '../guards/limits/policy-cache.js';
import { type Quota, rateLimited } from '../guards/limits/quotas.js';
import { type Call, defineRoute } from '../http/define-route.js';
import { readJson } from '../http/json-body.js';
import type { Route } from '../http/route.js';
import { validate } from '../http/validate.js';
import { provenTokenContract, tokenBody, tokenContract, tokenQuery } from './token.contract.js';

export type TokenRouteDeps = {
  issuer: TokenIssuer;
  devices: DerivedDevices;
  policies: PolicyCache;
  blocklist: BlocklistGuard;
  tokenSurge: TokenSurge;
  clock: RedisClock;
  tokenQuota: Quota;
  /** Counts invalid proofs of a platform by network: verifying one costs as much as 30 checkouts. */
  wrongProofs: LocalQuota;
};

type Asked = {
  device_fp?: string | undefined;
  product_id?: string | undefined;
  solution: string | null;
  platform: PlatformProof | null;
};

/** GET and POST /flash-sale/token. The signing key never leaves the server; tokens are limited per network. */
export function tokenRoutes(deps: TokenRouteDeps): Route[] {
  const { issuer, devices, policies, blocklist, tokenSurge, clock, tokenQuota, wrongProofs } = deps;

  async function issue(call: Call<typeof tokenContract | typeof provenTokenContract>, asked: Asked): Promise<void> {
    const { req, res } = call;
    const { product_id: product = '', solution, platform } = asked;
    const device = devices.ofToken(req, asked.device_fp);
    if (blocklist.refuses(req, res, { device })) return;
    const network = networkOf(req);
    const waitMs = platform === null ? 0 : wrongProofs.waitOf(network);
    if (waitMs > 0) throw rateLimited('wrong-proof', wrongProofs.limit, wrongProofs.windowMs / 1000, waitMs);
    const { fields, count } = await tokenQuota.takeCounted(network);
    const expiresAt = Math.floor(clock.nowMs() / 1000) + TOKEN_LIFE_MS / 1000;
    const level = platform === null ? (policies.of(product).limits.attestationLevel ?? 0) : 2;
    const isUnderAttack = tokenSurge.isOn(count) && !blocklist.bans.isAllowed({ device, network });
    const request = { device, network, product, solution, platform };
    const attestation = await issuer.issue(level, request, expiresAt, isUnderAttack).catch((refusal: unknown) => {
      if (platform !== null && refusal instanceof Problem) wrongProofs.take(network);
      throw refusal;
    });
    call.reply(200, { attestation, expires_at: expiresAt, device_fp: device }, fields);
  }

  return [
    defineRoute(tokenContract, (call) => {
      const { headers, query } = call.req;
      const solution = headers['x-challenge-solution'];
      const asked = validate(tokenQuery, query);
      return issue(call, { ...asked, solution: typeof solution === 'string' ? solution : null, platform: null });
    }),
    defineRoute(provenTokenContract, async (call) => {
      const { challenge_solution, platform, ...asked } = validate(tokenBody, await readJson(call.req));
      return issue(call, { ...asked, solution: challenge_solution ?? null, platform: platform ?? null });
    }),
  ];
}
