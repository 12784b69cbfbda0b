import type { CampaignPolicy } from '../../shared/domain/campaign-policy.js';
import type { ProductId } from '../../shared/domain/ids.js';
import type { Log } from '../../shared/observability/log.js';
import type { Metrics } from '../../shared/observability/metrics.js';
import type { CampaignPolicies } from '../../shared/postgres/campaign-policies.js';
import type { SaleStore } from '../../shared/redis/sale-store.js';
import type { VelocityBoard } from '../../shared/redis/velocity-board.js';

/** Who the audit log names for a pause. */
export const VELOCITY_ACTOR = 'velocity';
const USUAL_MINUTES = 60;

export type VelocityParts = {
  board: VelocityBoard;
  policies: CampaignPolicies;
  sale: SaleStore;
  metrics: Metrics;
  log: Log;
  limits: { velocityFactor: number; velocityFloorPerMinute: number };
};

/**
 * Finds campaigns that meet far more attempts in a minute than they did on average in the hour before. One that enforces is
 * paused, with its line and its holds as they are, until an operator resumes it; for one that observes somebody is told. The floor
 * keeps a launch, whose hour before was empty, from being an attack.
 */
export async function watchVelocity(nowMs: number, parts: VelocityParts): Promise<void> {
  const { board, limits } = parts;
  const thisMinute = Math.floor(nowMs / 60_000);
  // The minute before has an end that nobody has looked at yet.
  for (const minute of [thisMinute - 1, thisMinute]) {
    const counts = [...(await board.inMinute(minute))].filter(([product]) => product !== '');
    if (counts.length === 0) continue;
    const policies = new Map((await parts.policies.live()).map((policy) => [policy.product, policy]));
    for (const [product, attempts] of counts) {
      const policy = policies.get(product);
      if (!policy || policy.risk === 'off') continue;
      if (attempts <= (policy.limits.velocityFloorPerMinute ?? limits.velocityFloorPerMinute)) continue;
      const usual = await board.usual(product, minute, USUAL_MINUTES);
      if (attempts > usual * (policy.limits.velocityFactor ?? limits.velocityFactor))
        await alarm(policy, { minute, attempts, usual }, parts);
    }
  }
}

async function alarm(
  { product, risk }: CampaignPolicy,
  { minute, attempts, usual }: { minute: number; attempts: number; usual: number },
  { board, sale, metrics, log }: VelocityParts,
): Promise<void> {
  if (!(await board.claimAlert(product, minute))) return;
  metrics.velocityAlerts.inc({ mode: risk });
  const outcome =
    risk === 'enforce' ? (await sale.setStatus(product as ProductId, 'pause', VELOCITY_ACTOR, '')).kind : 'observed';
  log.error({ campaign: product, attempts, usual, outcome }, 'a campaign meets far more attempts than usual');
}
