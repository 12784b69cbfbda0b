import { z } from 'zod';
import { QUEUE_NAMES } from '../../shared/contracts/jobs.js';
import { CAMPAIGN_STATUSES } from '../../shared/domain/campaign.js';
import { covers } from '../../shared/domain/role.js';
import type { Sales } from '../../shared/sale/sales.js';
import type { ApiKeys } from '../guards/auth/api-keys.js';
import { type Degradation, SWITCHED_OFF } from '../guards/limits/degradation.js';
import { defineRoute } from '../http/define-route.js';
import { campaignId } from '../http/fields.js';
import type { Route } from '../http/route.js';
import { validate } from '../http/validate.js';
import { campaignData, statsData } from './campaign.contract.js';
import { campaignView } from './campaign-form.js';
import { lineData, lineLimit, lineView } from './line.contract.js';
import { headOfLine } from './line-head.js';
import { filterOf, listCursor, listFields } from './list.contract.js';
import type { CampaignNow, OverviewReader, QueueSummary } from './overview.js';
import type { Totals } from './totals.js';

const query = z.object({
  campaign: campaignId.optional().describe('only this campaign, with its terms and its line'),
  line: lineLimit.default(10).describe('number of users of the line, with `campaign`'),
  limit: z.coerce.number().int().min(1).max(100).default(50),
  cursor: listCursor.describe('`next` of the previous page'),
  ...listFields,
});

const { journal_backlog, oldest_unpersisted_seconds } = statsData.shape;
const queueData = z.object({
  waiting: z.int(),
  active: z.int(),
  delayed: z.int(),
  failed: z.int(),
  oldest_seconds: z.number().nullable().describe('how long the oldest job waits; null = none waits'),
  reason: z.string().nullable().describe('why the last attempt of that job failed; null = it did not fail'),
});
const campaignNow = statsData.omit({ journal_backlog: true, oldest_unpersisted_seconds: true }).extend({
  id: z.uuid(),
  name: z.string(),
  type: campaignData.shape.type,
  starts_at: z.iso.datetime(),
  ends_at: z.iso.datetime().nullable(),
  pause: z
    .object({ by: z.string(), at: z.iso.datetime(), reason: z.string().nullable() })
    .nullable()
    .describe('the latest pause, by an operator or by `velocity`, with its reason; null = not paused'),
  codes: z.int().describe('codes issued, without the code of a shared campaign'),
  hidden: z.boolean(),
  in_redis: z.boolean().describe('false = Redis does not have the campaign, and its numbers come from Postgres'),
});

const totalsData = z.object({
  campaigns: z.object(Object.fromEntries(CAMPAIGN_STATUSES.map((status) => [status, z.int()]))),
  held: z.int(),
  redeemed: z.int(),
  burned: z.int(),
  waiting: z.int(),
  confirmed_per_second: z.number(),
  complete: z.boolean().describe('false = `waiting` lacks the lines of some campaigns'),
});

const overviewData = z.object({
  time: z.iso.datetime().describe('time by the clock of Redis'),
  journal_backlog,
  oldest_unpersisted_seconds,
  workers: z.array(z.string()).describe('names of the workers that are alive'),
  switched_off: z
    .array(z.enum(SWITCHED_OFF))
    .describe('what the process that responds does not do now, because it or Redis is near its limit'),
  queues: z.object(Object.fromEntries(QUEUE_NAMES.map((name) => [name, queueData]))).describe('of all shards'),
  campaigns: z.array(campaignNow).describe('in the order of `sort`'),
  totals: totalsData.nullable().describe('over all campaigns; units as Postgres has them. null = with `campaign`'),
  next: z.int().nullable().describe('`cursor` of the next page; null = this is the last one'),
  // Not `nullable()`, which would make the schema of a campaign nullable for all.
  terms: z.union([campaignData, z.null()]),
  line: lineData.nullable().describe('null = without `campaign`, or not in Redis'),
});

export type OverviewRouteDeps = {
  overview: OverviewReader;
  sales: Sales;
  apiKeys: ApiKeys;
  degradation: Pick<Degradation, 'off'>;
};

/** GET /admin/overview: the data that the operator's page polls once a second. */
export function overviewRoute({ overview, sales, apiKeys, degradation }: OverviewRouteDeps): Route {
  return defineRoute(
    {
      operationId: 'getOverview',
      method: 'get',
      path: '/admin/overview',
      summary: 'Live numbers of a page of campaigns, or of one with its line, and the state of journal and queues',
      description:
        'One bounded read, whose cost does not depend on the length of the lines. The users in line are left out for the role `viewer`.',
      tag: 'admin',
      caller: 'admin',
      query,
      answers: { 200: { description: 'The current numbers.', data: overviewData } },
      errors: ['unauthorized', 'forbidden', 'invalid_request', 'campaign_not_found', 'temporarily_unavailable'],
    },
    async (call) => {
      const { req } = call;
      const { role } = apiKeys.requireOperator(req);
      const wanted = validate(query, req.query);
      const { campaign, line: lineLength, limit, cursor } = wanted;
      const now = await (campaign === undefined
        ? overview.page(filterOf(wanted), limit, cursor ?? null)
        : overview.one(campaign));
      const one = campaign === undefined ? undefined : now.campaigns[0]?.campaign;
      const line = one ? await headOfLine(sales, one.productId, lineLength) : null;
      call.reply(200, {
        time: new Date(now.timeMs).toISOString(),
        journal_backlog: now.journal.entries,
        oldest_unpersisted_seconds: now.journal.oldestSeconds,
        workers: now.workers,
        switched_off: [...degradation.off],
        queues: Object.fromEntries(QUEUE_NAMES.map((name) => [name, queueView(now.queues[name])])),
        campaigns: now.campaigns.map(view),
        totals: now.totals && totalsView(now.totals),
        next: now.next,
        terms: one ? campaignView(one) : null,
        line: line?.kind === 'line' ? { ...lineView(line), ...(covers(role, 'support') ? {} : { head: [] }) } : null,
      });
    },
  );
}

function queueView({ oldestSeconds, ...queue }: QueueSummary): z.input<typeof queueData> {
  return { ...queue, oldest_seconds: oldestSeconds === null ? null : Math.round(oldestSeconds) };
}

function totalsView({ confirmedPerSecond, ...totals }: Totals): z.input<typeof totalsData> {
  return { ...totals, confirmed_per_second: confirmedPerSecond };
}

function view({ campaign, stock, persisted, confirmedPerSecond, pause }: CampaignNow): z.input<typeof campaignNow> {
  const { id, productId, name, type, startsAt, endsAt, totalLimit } = campaign;
  const { status, ...counters } = stock ?? {
    status: campaign.status,
    total: totalLimit,
    free: totalLimit === null ? null : Math.max(0, totalLimit - persisted),
    held: 0,
    redeemed: persisted,
    burned: 0,
    waiting: 0,
  };
  return {
    id,
    product_id: productId,
    name,
    type,
    status,
    starts_at: startsAt.toISOString(),
    ends_at: endsAt?.toISOString() ?? null,
    pause: pause && { by: pause.by, at: pause.at.toISOString(), reason: pause.reason },
    codes: campaign.codes,
    hidden: campaign.hidden,
    in_redis: stock !== null,
    ...counters,
    persisted,
    drift: stock ? stock.held + stock.redeemed + stock.burned - persisted : 0,
    confirmed_per_second: confirmedPerSecond,
  };
}
