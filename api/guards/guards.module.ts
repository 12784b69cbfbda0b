import { LIMITS } from '../../shared/config/limits.js';
import type { Core } from '../core.js';
import type { Guard, GuardName } from '../http/route.js';
import { type Abuse, abuseModule } from './abuse/abuse.module.js';
import { AttemptRate } from './abuse/attempt-rate.js';
import { type Attestations, attestationModule } from './attestation/attestation.module.js';
import { type Auth, authModule } from './auth/auth.module.js';
import { pollerOf } from './caller/address.js';
import { type Limits, limitsModule } from './limits/limits.module.js';
import { LocalQuota } from './limits/local-quota.js';

/** The guards that features use, by concern. */
export type Guards = {
  auth: Auth;
  limits: Limits;
  attestation: Attestations;
  abuse: Abuse;
  /** Counts attempts at each product. */
  attemptRate: AttemptRate;
  /** The guards that contracts name. */
  byName: Record<GuardName, Guard>;
};

export function guardsModule(core: Core): Guards {
  const attemptRate = new AttemptRate(LIMITS.abuse);
  core.life.add('rate of attempts', attemptRate);
  const limits = limitsModule(core);
  const attestation = attestationModule(core, attemptRate);
  const abuse = abuseModule(core, { limits, attestation, attemptRate });
  return { auth: authModule(core), limits, attestation, abuse, attemptRate, byName: namedGuards(limits, abuse) };
}

function namedGuards({ tokenQuota, couponTokenQuota, pollQuota }: Limits, { blocklist }: Abuse): Guards['byName'] {
  // Documents of hundreds of kilobytes that need no key.
  const documentQuota = new LocalQuota(LIMITS.http.documentsPer10s, 10_000, LIMITS.abuse.callersKept);
  return {
    network_ban: (req, res) => blocklist.refusesNetwork(req, res),
    token_quota: (req, res) => blocklist.refusesFlood(req, res, tokenQuota),
    coupon_token_quota: (req, res) => blocklist.refusesFlood(req, res, couponTokenQuota),
    document_quota: (req, res) => blocklist.refusesBeyond(req, res, 'documents', documentQuota),
    poll_quota: (req, res) => blocklist.refusesFlood(req, res, pollQuota, pollerOf),
  };
}
