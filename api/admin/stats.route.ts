import { z } from 'zod';
import type { RedemptionsTable } from '../../shared/postgres/redemptions.js';
import type { SaleStore } from '../../shared/sale/sale-store.js';
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
  shards: Pick<Shards<Pick<Shard, 'index' | 'journal' | 'clock'> & { sale: SaleStore }>, 'of'>;
  redemptions: RedemptionsTable;
  apiKeys: ApiKeys;
};

/** GET /admin/campaigns/:id/stats: the counters in one consistent read, and the backlog of the journal. */
export function statsRoute(deps: StatsDeps): Route {
  return defineRoute(
    {
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
      const { sale, journal, clock } = deps.shards.of(campaign.productId);
      const [stock, backlog, summary] = await Promise.all([
        sale.reader.stock(campaign.productId),
        journal.backlog(),
        deps.redemptions.summary(campaign.id, RATE_SECONDS),
      ]);
      if (!stock)
        throw call.refusal('campaign_not_found', 'The campaign has no live numbers: it is a draft or archived.');
      const { status, ...counters } = stock;
      call.reply(200, {
        product_id: campaign.productId,
        status,
        ...counters,
        journal_backlog: backlog.entries,
        oldest_unpersisted_seconds:
          backlog.oldestMs === null ? 0 : Math.max(0, Math.round(clock.nowMs() - backlog.oldestMs) / 1000),
        persisted: summary.taken,
        drift: stock.held + stock.redeemed + stock.burned - summary.taken,
        confirmed_per_second: summary.recent / RATE_SECONDS,
      });
    },
  );
}
