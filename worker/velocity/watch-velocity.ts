import { ACTORS } from '../../shared/domain/actors.js';
import type { CampaignPolicy } from '../../shared/domain/campaign-policy.js';
import type { ProductId } from '../../shared/domain/ids.js';
import type { Log } from '../../shared/observability/log.js';
import type { Metrics } from '../../shared/observability/metrics.js';
import type { CampaignPolicies, CampaignPolicyWithUnits } from '../../shared/postgres/campaign-policies.js';
import type { Sales } from '../../shared/sale/sales.js';
import type { VelocityStore } from '../../shared/sale/velocity-store.js';

const USUAL_MINUTES = 60;

export type VelocityDeps = {
  store: VelocityStore;
  policies: CampaignPolicies;
  sales: Pick<Sales, 'all'>;
  metrics: Metrics;
  log: Log;
  limits: { velocityFactor: number; velocityFloorPerMinute: number; velocityFloorPerUnit: number };
};

/**
 * Finds campaigns that promise far more units and places in a minute than on average in the hour before. A campaign
 * with `risk: enforce` is paused; its line and its reservations stay. After an operator has resumed it, it is not
 * paused again for an hour. A campaign with `risk: observe` only raises an alert. A launch has an empty hour before it,
 * so a floor keeps it from counting as an attack.
 */
export async function watchVelocity(nowMs: number, deps: VelocityDeps): Promise<void> {
  const { store, limits } = deps;
  const thisMinute = Math.floor(nowMs / 60_000);
  // The previous run did not cover the end of the minute before.
  for (const minute of [thisMinute - 1, thisMinute]) {
    const counts = [...(await store.inMinute(minute))].filter(([product]) => product !== '');
    if (counts.length === 0) continue;
    const policies = new Map((await deps.policies.liveWithUnits()).map((policy) => [policy.product, policy]));
    for (const [product, promised] of counts) {
      const policy = policies.get(product);
      if (!policy || policy.risk === 'off') continue;
      if (promised <= floorOf(policy, limits)) continue;
      const usual = await store.usual(product, minute, USUAL_MINUTES);
      if (promised > usual * (policy.limits.velocityFactor ?? limits.velocityFactor))
        await alarm(policy, { minute, promised, usual }, deps);
    }
  }
}

/** How many promises in a minute never count as an attack. A campaign with more units attracts more users. */
function floorOf({ limits, units }: CampaignPolicyWithUnits, defaults: VelocityDeps['limits']): number {
  const { velocityFloorPerMinute, velocityFloorPerUnit } = defaults;
  return limits.velocityFloorPerMinute ?? Math.max(velocityFloorPerMinute, (units ?? 0) * velocityFloorPerUnit);
}

async function alarm(
  { product, risk }: CampaignPolicy,
  { minute, promised, usual }: { minute: number; promised: number; usual: number },
  { store, sales, metrics, log }: VelocityDeps,
): Promise<void> {
  if (!(await store.claimAlert(product, minute))) return;
  metrics.velocityAlerts.inc({ mode: risk });
  const reason = `${promised} units and places were promised in a minute; ${rounded(usual)} are usual`;
  const outcome = risk === 'enforce' ? await pause(product as ProductId, reason, store, sales) : 'observed';
  log.error({ campaign: product, promised, usual, outcome }, 'a campaign promises far more than usual');
}

async function pause(
  product: ProductId,
  reason: string,
  store: VelocityStore,
  sales: VelocityDeps['sales'],
): Promise<string> {
  if (!(await store.claimPause(product))) return 'resumed_by_operator';
  const outcomes = await Promise.all(
    sales.all(product).map(({ campaigns }) => campaigns.setStatus(product, 'pause', ACTORS.velocity, '', reason)),
  );
  return outcomes[0]?.kind ?? 'not_found';
}

const rounded = (value: number): string => (value < 10 ? value.toFixed(1) : String(Math.round(value)));
