import { LIMITS } from '../../../shared/config/limits.js';
import { STRICT_LIMITS } from '../../../shared/domain/campaign-policy.js';
import { BansTable } from '../../../shared/postgres/bans.js';
import { BanStore } from '../../../shared/redis/ban-store.js';
import type { Core } from '../../core.js';
import { FastRejects } from '../../http/fast-reject.js';
import type { Attestations } from '../attestation/attestation.module.js';
import type { Limits } from '../limits/limits.module.js';
import { AccountCounts } from './account-counts.js';
import { AddressBlocks } from './address-blocks.js';
import type { AttemptRate } from './attempt-rate.js';
import { Bans } from './bans.js';
import { BlocklistGuard } from './blocklist-guard.js';
import { FailedAttemptLimiter } from './failed-attempt-limiter.js';
import { PersonCheck } from './person-check.js';
import { Risk } from './risk.js';
import { RiskGate, type RiskGateDeps } from './risk-gate.js';
import { StrictAddresses } from './strict-addresses.js';

/** Refuses banned callers, and asks suspicious ones for more proof. */
export type Abuse = {
  bans: Bans;
  /** Refuses banned callers. */
  blocklist: BlocklistGuard;
  /** Judges a claim by its campaign's limits. */
  riskGate: RiskGate;
  failures: FailedAttemptLimiter;
  /** Logs refused requests, many in one line. */
  rejects: FastRejects;
};

export function abuseModule(
  core: Core,
  guards: { limits: Limits; attestation: Attestations; attemptRate: AttemptRate },
): Abuse {
  const { log, life, clock, shards } = core;
  const rejects = new FastRejects(log);
  life.add('log of refused requests', { stop: () => rejects.flush() });
  const bans = createBans(core);
  return {
    bans,
    blocklist: new BlocklistGuard(bans, rejects, () => clock.nowMs()),
    riskGate: createRiskGate(core, { ...guards, bans }),
    failures: new FailedAttemptLimiter(shards, bans, log, LIMITS.abuse),
    rejects,
  };
}

function createBans({ log, metrics, life, clock, shards, database }: Core): Bans {
  const { commands, subscriber } = shards.home;
  const nowMs = () => clock.nowMs();
  const bans = new Bans({
    store: new BanStore(commands, subscriber, LIMITS.abuse.deviceBanMs, nowMs),
    table: new BansTable(database),
    nowMs,
    log,
    onRefused: (kind) => metrics.blocked.inc({ kind }),
    onDropped: (reason) => metrics.ruleBansDropped.inc({ reason }),
    limits: LIMITS.bans,
  });
  life.add('bans', bans);
  metrics.observe('bans', 'Bans and allowances that a process holds', () => bans.size, 'max');
  return bans;
}

/** @throws Error without an attestation key, which the configuration never leaves out */
function createRiskGate(
  { config, clock, shards, log, metrics, sales }: Core,
  { limits, attestation, attemptRate, bans }: Parameters<typeof abuseModule>[1] & { bans: Bans },
): RiskGate {
  const [attestationKey] = config.attestationKeys;
  if (!attestationKey) throw new Error('at least one attestation key is needed');
  const nowMs = () => clock.nowMs();
  const risk = new Risk({
    counts: new AccountCounts(shards, attestationKey.key, LIMITS.abuse),
    bans,
    nowMs,
    log,
    onVerdict: (rule, verdict, mode) => metrics.riskVerdicts.inc({ rule, verdict, mode }),
    limits: LIMITS.abuse,
  });
  const addressLimits: RiskGateDeps['addressLimits'] = {
    checkout: {
      rule: 'checkout_per_address',
      quota: limits.perAddress('checkout-address', config.checkoutPerMinutePerAddress),
      limitOf: ({ checkoutPerMinutePerAddress }) => checkoutPerMinutePerAddress,
      why: 'Many checkouts have come from this address.',
    },
    redeem: {
      rule: 'redeem_per_address',
      quota: limits.perAddress('redeem-address', config.redeemPerMinutePerAddress),
      limitOf: ({ redeemPerMinutePerAddress }) => redeemPerMinutePerAddress,
      why: 'Many codes have been tried from this address.',
    },
  };
  const { challenges, human, platform } = attestation;
  const person = human && new PersonCheck(human, challenges);
  const strictAddresses = new StrictAddresses({
    blocks: new AddressBlocks(shards),
    bans,
    person,
    onBlocked: (rule) => risk.deps.onVerdict(rule, 'block', 'strict'),
    nowMs,
  });
  return new RiskGate({
    remembers: (product, user, key) => sales.of(product, sales.bucketOf(product, user)).reader.remembers(user, key),
    risk,
    bans,
    challenges,
    person,
    platform,
    attempts: attemptRate,
    addressLimits,
    strictAddresses,
    checkoutsPerUser: limits.perUser('checkout', STRICT_LIMITS.checkoutPerMinutePerUser),
    limits: LIMITS.abuse,
  });
}
