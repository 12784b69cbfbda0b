import { LIMITS } from '../../shared/config/limits.js';
import { FIRST_BUCKET } from '../../shared/domain/buckets.js';
import type { ProductId } from '../../shared/domain/ids.js';
import { VelocityStore, VelocityStores } from '../../shared/sale/velocity-store.js';
import type { Core } from '../core.js';
import type { Guard, GuardName } from '../http/route.js';
import { type Abuse, abuseModule } from './abuse/abuse.module.js';
import { Velocity } from './abuse/velocity.js';
import { type Attestations, attestationModule } from './attestation/attestation.module.js';
import { type Auth, authModule } from './auth/auth.module.js';
import { type Limits, limitsModule } from './limits/limits.module.js';
import { LocalQuota } from './limits/local-quota.js';

/** The guards that features use, by concern. */
export type Guards = {
  auth: Auth;
  limits: Limits;
  attestation: Attestations;
  abuse: Abuse;
  /** Counts attempts at each product. */
  velocity: Velocity;
  /** The guards that contracts name. */
  byName: Record<GuardName, Guard>;
};

export function guardsModule(core: Core): Guards {
  const { life, clock, shards } = core;
  const velocity = new Velocity(
    new VelocityStores(
      shards.all.map(({ commands }) => new VelocityStore(commands)),
      (product) => shards.of(product as ProductId, FIRST_BUCKET).index,
    ),
    () => clock.nowMs(),
    LIMITS,
  );
  life.add('velocity of campaigns', velocity);
  const limits = limitsModule(core);
  const attestation = attestationModule(core, velocity);
  const abuse = abuseModule(core, { limits, attestation });
  return { auth: authModule(core), limits, attestation, abuse, velocity, byName: namedGuards(limits, abuse) };
}

function namedGuards({ tokenQuota, couponTokenQuota }: Limits, { blocklist }: Abuse): Guards['byName'] {
  // Documents of hundreds of kilobytes that need no key.
  const documentQuota = new LocalQuota(LIMITS.documentsPer10s, 10_000, LIMITS.callersKept);
  return {
    network_ban: (req, res) => blocklist.refusesNetwork(req, res),
    token_quota: (req, res) => blocklist.refusesFlood(req, res, tokenQuota),
    coupon_token_quota: (req, res) => blocklist.refusesFlood(req, res, couponTokenQuota),
    document_quota: (req, res) => blocklist.refusesBeyond(req, res, 'documents', documentQuota),
  };
}
