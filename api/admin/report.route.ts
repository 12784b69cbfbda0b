import { stringify } from 'csv-stringify/sync';
import { z } from 'zod';
import { CAMPAIGN_STATUSES } from '../../shared/domain/campaign.js';
import type { SaleMinutes } from '../../shared/postgres/sale-minutes.js';
import type { ApiKeys } from '../guards/auth/api-keys.js';
import { csvHeaders, wantsCsv } from '../http/csv.js';
import { defineRoute } from '../http/define-route.js';
import { campaignId } from '../http/fields.js';
import type { Route, RouteContract } from '../http/route.js';
import { validate } from '../http/validate.js';
import type { Campaigns } from './campaigns.js';
import { AS_OF, type LargeReads } from './large-reads.js';

const query = z.object({
  format: z.enum(['json', 'csv']).optional().describe('`Accept: text/csv` is an alternative to `csv`'),
});
const count = z.int().nonnegative();

const report = z
  .object({
    product_id: z.string(),
    name: z.string(),
    status: z.enum(CAMPAIGN_STATUSES),
    starts_at: z.iso.datetime(),
    ends_at: z.iso.datetime().nullable(),
    total: count.nullable().describe('units on sale; null = unlimited'),
    paid_units: count.describe('units when they were paid, also those that were refunded later'),
    reservations: count.describe('made at once or by promotion'),
    reserved: count.describe('reservations without the line'),
    joined: count.describe('places taken in the line'),
    promoted: count,
    paid: count.describe('reservations that were paid'),
    paid_percent: z.number().nullable().describe('share of the reservations that were paid; null = there are none'),
    expired: count.describe('reservations whose time to pay ran out'),
    released: count,
    refunded: count,
    median_wait_seconds: z.number().nullable().describe('of all promoted users, within 2.5 %; null = there are none'),
    busiest_minute: z.iso.datetime().nullable().describe('with most reservations and places'),
    busiest_minute_claims: count.nullable(),
    revenue: z
      .array(z.object({ currency: z.string(), amount: z.int() }))
      .describe('paid units at the price of the sale page, before refunds, in minor units; empty = it had no price'),
  })
  .meta({ id: 'SaleReport' });

const contract = {
  method: 'get',
  path: '/admin/campaigns/:id/report',
  operationId: 'getCampaignReport',
  summary: 'The report of a sale',
  description: 'The whole sale until now. `GET /admin/campaigns/{id}/history` has its minutes.',
  tag: 'admin',
  caller: 'admin',
  params: z.object({ id: campaignId }),
  query,
  answers: {
    200: {
      description: 'The report, or the same as a CSV with one row.',
      data: report,
      contentTypes: ['text/csv'],
      optionalHeaders: ['Content-Disposition', AS_OF],
    },
  },
  errors: ['unauthorized', 'forbidden', 'invalid_request', 'campaign_not_found', 'temporarily_unavailable'],
} satisfies RouteContract;

export type ReportRouteDeps = { campaigns: Campaigns; reads: LargeReads<SaleMinutes>; apiKeys: ApiKeys };

/** GET /admin/campaigns/:id/report: the sums of a sale as JSON or CSV. */
export function reportRoute({ campaigns, reads, apiKeys }: ReportRouteDeps): Route {
  return defineRoute(contract, async (call) => {
    const { req, res } = call;
    apiKeys.require(req, 'admin');
    const { format } = validate(query, req.query);
    const campaign = await campaigns.find(validate(contract.params, req.params).id);
    const { table, headers } = await reads();
    const sums = await table.report(campaign.id);
    if (!sums)
      throw call.refusal('temporarily_unavailable', 'The minutes of this sale are being counted. Try again later.');
    const { reserved, promoted, paid, busiest_minute } = sums;
    const reservations = reserved + promoted;
    const data: z.input<typeof report> = {
      product_id: campaign.productId,
      name: campaign.name,
      status: campaign.status,
      starts_at: campaign.startsAt.toISOString(),
      ends_at: campaign.endsAt?.toISOString() ?? null,
      total: campaign.totalLimit,
      reservations,
      ...sums,
      paid_percent: reservations === 0 ? null : Math.round((1_000 * paid) / reservations) / 10,
      busiest_minute: busiest_minute && new Date(busiest_minute).toISOString(),
    };
    if (!wantsCsv(req, format)) return call.reply(200, data, headers);
    call.begin(200, [...csvHeaders(req, `report-${campaign.productId}`), ...headers]);
    const { revenue, ...cells } = data;
    const money = revenue.map(({ currency, amount }) => `${amount} ${currency}`).join(' + ');
    res.end(stringify([{ ...cells, revenue: money }], { header: true, escape_formulas: true }));
  });
}
