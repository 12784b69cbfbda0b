import { LIMITS } from '../../../shared/config/limits.js';
import type { Core } from '../../core.js';
import { CampaignPolicies } from './campaign-policies.js';
import { Degradation } from './degradation.js';
import { LoadShedder } from './load-shedding.js';
import { PolicyCache } from './policy-cache.js';
import { CampaignLimit, Quota } from './quotas.js';
import { TokenBucket } from './token-bucket.js';

/** Limits the load of the process and the rate of each caller. */
export type Limits = {
  loadShedder: LoadShedder;
  /** What an overloaded process switches off. */
  degradation: Degradation;
  policies: PolicyCache;
  tokenQuota: Quota;
  couponTokenQuota: Quota;
  /** Polls of a user in a campaign, each network apart (`pollerOf`). */
  pollQuota: Quota;
  /** @param name of the policy, as responses name it */
  quota: (name: string, limit: number, seconds: number) => Quota;
  /** Calls of a user: at once, and in each minute after that. A campaign may set a limit of its own. */
  perUser: (name: string, perMinute: number) => CampaignLimit<TokenBucket>;
  /** Calls of a network in a minute, counted beyond the limit (`addressCountedTimes`). */
  perAddress: (name: string, perMinute: number) => CampaignLimit;
};

export function limitsModule({ config, log, metrics, life, shards, reads, generation }: Core): Limits {
  const onLimited = (policy: string) => metrics.limited.inc({ policy });
  // With several shards, the one that counts a caller may be away while the campaign is served.
  const insured = shards.all.length > 1;
  const quota = (name: string, limit: number, seconds: number, counter = name) =>
    new Quota(shards, name, limit, seconds, onLimited, counter, insured);
  // Tokens are signed without Redis.
  const insuredQuota = (name: string, limit: number) => new Quota(shards, name, limit, 60, onLimited, name, true);

  const loadShedder = new LoadShedder(LIMITS.http);
  life.add('load shedding', loadShedder);
  metrics.observe('checkouts_in_flight', 'Checkouts that wait for Redis now', () => loadShedder.inFlight);
  metrics.observe(
    'event_loop_lag_seconds',
    'Lag of the event loop, median of the last 100 ms; of the process that has most',
    () => loadShedder.lagMs / 1000,
    'max',
  );

  const degradation = new Degradation({
    atPercent: config.degradeAtPercent,
    share: () => Math.max(loadShedder.share, (slownessOf(shards.all) - loadShedder.lagMs) / LIMITS.redis.commandMs),
    onChange: (off) =>
      log.warn({ off }, off.length > 0 ? 'this process is overloaded and does less' : 'this process does all again'),
  });
  life.add('degradation', degradation);
  metrics.observe(
    'degraded_level',
    'What a process has switched off: 1 = frequent positions, 2 = frequent polls, 3 = validation of codes; of the process that has most',
    () => degradation.level,
    'max',
  );

  const { validatePerMinutePerUser, redeemPerMinutePerUser, redeemPerMinutePerAddress } = config;
  const defaults = { validatePerMinutePerUser, redeemPerMinutePerUser, redeemPerMinutePerAddress };
  const source = new CampaignPolicies(reads);
  const policies = new PolicyCache(source, LIMITS.abuse.policiesEveryMs, log, defaults, generation);
  life.add('policies of campaigns', policies);
  return {
    loadShedder,
    degradation,
    policies,
    tokenQuota: insuredQuota('token', config.tokensPerMinutePerAddress),
    couponTokenQuota: insuredQuota('coupon-token', config.tokensPerMinutePerAddress),
    pollQuota: quota('poll', config.pollsPer10sPerCaller, 10),
    quota: (name, limit, seconds) => quota(name, limit, seconds),
    perUser: (name, perMinute) =>
      new CampaignLimit(
        (limit, counter) => new TokenBucket(shards, { name, perMinute: limit, counter, insured, onLimited }),
        name,
        perMinute,
      ),
    perAddress: (name, perMinute) =>
      new CampaignLimit(
        (limit, counter) => quota(name, limit * LIMITS.abuse.addressCountedTimes, 60, counter),
        name,
        perMinute,
      ),
  };
}

/**
 * How long Redis needs for a call, in ms, the time that this process takes to notice the reply included: the median of
 * the shards in service, because one slow shard is no reason to do less for the campaigns of the others.
 */
function slownessOf(shards: Core['shards']['all']): number {
  const times = shards.flatMap(({ gate, clock }) => (gate.isOpen ? [clock.roundTripMs] : [])).sort((a, b) => a - b);
  return times[Math.floor((times.length - 1) / 2)] ?? 0;
}
