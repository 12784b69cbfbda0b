import { LIMITS } from '../../shared/config/limits.js';
import type { Claims } from '../claim/claim.module.js';
import type { Core } from '../core.js';
import { TokenSurge } from '../guards/abuse/token-surge.js';
import { platformAttested, proofOfWork, selfDeclared, TokenIssuer } from '../guards/auth/token-issuer.js';
import type { Guards } from '../guards/guards.module.js';
import { LocalQuota } from '../guards/limits/local-quota.js';
import type { Route } from '../http/route.js';
import { Checkout } from './checkout.js';
import { checkoutRoute } from './checkout.route.js';
import { tokenRoutes } from './token.route.js';

/** Device tokens, and checkout itself. */
export function checkoutModule(
  { config, clock, metrics, log }: Core,
  { auth, limits, attestation, abuse, attemptRate }: Guards,
  { claim, codeTexts, terms, payLinks }: Claims,
): Route[] {
  const { policies, loadShedder, tokenQuota } = limits;
  const { blocklist, riskGate } = abuse;
  return [
    ...tokenRoutes({
      issuer: new TokenIssuer(attestation.tokens, {
        0: selfDeclared,
        1: proofOfWork(attestation.challenges),
        2: platformAttested(attestation.platform),
      }),
      devices: attestation.devices,
      policies,
      blocklist,
      tokenSurge: new TokenSurge(policies, {
        freePerMinute: config.freeTokensPerMinute,
        freeInPeacePerMinute: Math.max(config.freeTokensPerMinute, LIMITS.abuse.tokensFreeInPeace),
      }),
      clock,
      tokenQuota,
      wrongProofs: new LocalQuota(LIMITS.attestation.wrongProofsPerMinute, 60_000, LIMITS.abuse.callersKept),
    }),
    checkoutRoute({
      loadShedder,
      checkout: new Checkout(claim, codeTexts, terms, payLinks),
      attestation: attestation.tokens,
      devices: attestation.devices,
      blocklist,
      riskGate,
      policies,
      attemptRate,
      shopper: auth.shopper,
      metrics,
      log,
    }),
  ];
}
