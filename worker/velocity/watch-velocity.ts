import type { CampaignPolicy } from '../../shared/domain/campaign-policy.js';
import type { ProductId } from '../../shared/domain/ids.js';
import type { Log } from '../../shared/observability/log.js';
import type { Metrics } from '../../shared/observability/metrics.js';
import type { CampaignPolicies, CampaignPolicyWithUnits } from '../../shared/postgres/campaign-policies.js';
import type { SaleStore } from '../../shared/sale/sale-store.js';
import type { VelocityStore } from '../../shared/sale/velocity-store.js';

/** Who the audit log names for a pause. */
export const VELOCITY_ACTOR = 'velocity';
const USUAL_MINUTES = 60;

export type VelocityDeps = {
  store: VelocityStore;
  policies: CampaignPolicies;
  sale: SaleStore;
  metrics: Metrics;
  log: Log;
  limits: { velocityFactor: number; velocityFloorPerMinute: number; velocityFloorPerUnit: number };
};

/**
 * Finds campaigns that promise far more units and places in a minute than they did on average in the hour before. One that enforces
 * is paused, with its line and its holds as they are, until an operator resumes it, and then not again for an hour; for one that
 * observes an alert is raised. The floor keeps a launch, whose hour before was empty, from being an attack.
 */
export async function watchVelocity(nowMs: number, deps: VelocityDeps): Promise<void> {
  const { store, limits } = deps;
  const thisMinute = Math.floor(nowMs / 60_000);
  // The end of the minute before was not looked at yet.
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

/** Promises in a minute that are no attack: a campaign of more units draws a larger crowd. */
function floorOf({ limits, units }: CampaignPolicyWithUnits, defaults: VelocityDeps['limits']): number {
  const { velocityFloorPerMinute, velocityFloorPerUnit } = defaults;
  return limits.velocityFloorPerMinute ?? Math.max(velocityFloorPerMinute, (units ?? 0) * velocityFloorPerUnit);
}

async function alarm(
  { product, risk }: CampaignPolicy,
  { minute, promised, usual }: { minute: number; promised: number; usual: number },
  { store, sale, metrics, log }: VelocityDeps,
): Promise<void> {
  if (!(await store.claimAlert(product, minute))) return;
  metrics.velocityAlerts.inc({ mode: risk });
  const reason = `${promised} units and places were promised in a minute; ${rounded(usual)} are usual`;
  const outcome = risk === 'enforce' ? await pause(product as ProductId, reason, store, sale) : 'observed';
  log.error({ campaign: product, promised, usual, outcome }, 'a campaign promises far more than usual');
}

async function pause(product: ProductId, reason: string, store: VelocityStore, sale: SaleStore): Promise<string> {
  if (!(await store.claimPause(product))) return 'resumed_by_operator';
  const { kind } = await sale.campaigns.setStatus(product, 'pause', VELOCITY_ACTOR, '', reason);
  return kind;
}

const rounded = (value: number): string => (value < 10 ? value.toFixed(1) : String(Math.round(value)));
