import { z } from 'zod';
import { FIRST_BUCKET } from '../../shared/domain/buckets.js';
import type { RedemptionsTable } from '../../shared/postgres/redemptions.js';
import type { Sales } from '../../shared/sale/sales.js';
import type { Shard } from '../../shared/shards/shard.js';
import type { Shards } from '../../shared/shards/shards.js';
import type { ApiKeys } from '../guards/auth/api-keys.js';
import { defineRoute } from '../http/define-route.js';
import { campaignId } from '../http/fields.js';
import type { Route } from '../http/route.js';
import { validate } from '../http/validate.js';
import { statsData } from './campaign.contract.js';
import type { Campaigns } from './campaigns.js';

const RATE_SECONDS = 10;
const params = z.object({ id: campaignId });

export type StatsDeps = {
  campaigns: Campaigns;
  sales: Pick<Sales, 'stock'>;
  shards: Pick<Shards<Pick<Shard, 'index' | 'journal' | 'clock'>>, 'of'>;
  redemptions: RedemptionsTable;
  apiKeys: ApiKeys;
};

/** GET /admin/campaigns/:id/stats: the counters in one consistent read, and the backlog of the journal. */
export function statsRoute(deps: StatsDeps): Route {
  return defineRoute(
    {
      operationId: 'getCampaignStats',
      method: 'get',
      path: '/admin/campaigns/:id/stats',
      summary: 'Live numbers of a campaign',
      description: '`free + held + redeemed + burned = total` always holds.',
      tag: 'admin',
      caller: 'admin',
      params,
      answers: { 200: { description: 'The numbers.', data: statsData } },
      errors: ['unauthorized', 'forbidden', 'campaign_not_found', 'temporarily_unavailable'],
    },
    async (call) => {
      const { req } = call;
      deps.apiKeys.require(req, 'admin');
      const campaign = await deps.campaigns.find(validate(params, req.params).id);
      const { clock } = deps.shards.of(campaign.productId, FIRST_BUCKET);
      const buckets = Array.from({ length: campaign.buckets }, (_, bucket) => bucket);
      const [stock, backlogs, summary] = await Promise.all([
        deps.sales.stock(campaign.productId),
        Promise.all(buckets.map((bucket) => deps.shards.of(campaign.productId, bucket).journal.backlog())),
        deps.redemptions.summary(campaign.id, RATE_SECONDS),
      ]);
      if (!stock)
        throw call.refusal('campaign_not_found', 'The campaign has no live numbers: it is a draft or archived.');
      const { status, ...counters } = stock;
      const oldestMs = Math.min(...backlogs.map((backlog) => backlog.oldestMs ?? Number.POSITIVE_INFINITY));
      call.reply(200, {
        product_id: campaign.productId,
        status,
        ...counters,
        journal_backlog: backlogs.reduce((sum, { entries }) => sum + entries, 0),
        oldest_unpersisted_seconds: Number.isFinite(oldestMs)
          ? Math.max(0, Math.round(clock.nowMs() - oldestMs) / 1000)
          : 0,
        persisted: summary.taken,
        drift: stock.held + stock.redeemed + stock.burned - summary.taken,
        confirmed_per_second: summary.recent / RATE_SECONDS,
      });
    },
  );
}
