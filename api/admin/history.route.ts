import { stringify } from 'csv-stringify/sync';
import { z } from 'zod';
import type { StoredCampaign } from '../../shared/postgres/campaigns.js';
import type { Database } from '../../shared/postgres/pool.js';
import { MINUTE_COLUMNS, type SaleMinute, type SaleMinutes } from '../../shared/postgres/sale-minutes.js';
import type { ApiKeys } from '../guards/auth/api-keys.js';
import { csvHeaders, wantsCsv } from '../http/csv.js';
import { type Call, defineRoute } from '../http/define-route.js';
import { campaignId, isoTime } from '../http/fields.js';
import type { Route, RouteContract } from '../http/route.js';
import { invalidFields, validate } from '../http/validate.js';
import type { Campaigns } from './campaigns.js';
import { AS_OF, type LargeReads } from './large-reads.js';
import { operatorActions } from './terms-changes.js';

const DAY_MS = 86_400_000;
const MAX_DAYS = 7;
const ACTIONS = 500;

const query = z.object({
  from: isoTime.optional().describe('default: the start of the sale, or of its last seven days'),
  to: isoTime.optional().describe('excluded; default: now'),
  format: z.enum(['json', 'csv']).optional().describe('`Accept: text/csv` is an alternative to `csv`'),
});

const minute = z.object({
  minute: z.iso.datetime(),
  reserved: z.int().describe('reservations without the line'),
  joined: z.int().describe('places taken in the line'),
  promoted: z.int(),
  paid: z.int().describe('reservations that were paid'),
  paid_units: z.int(),
  expired: z.int().describe('reservations whose time to pay ran out'),
  released: z.int(),
  refunded: z.int(),
  median_wait_seconds: z.number().nullable().describe('of the users promoted in this minute, within 2.5 %'),
  revenue: z
    .int()
    .nullable()
    .describe(
      'paid units at the price of the sale page, before refunds, in minor units; null = it had no price at the end of this minute',
    ),
  currency: z.string().nullable(),
});

const contract = {
  method: 'get',
  path: '/admin/campaigns/:id/history',
  operationId: 'getCampaignHistory',
  summary: 'What happened in each minute of a sale, and what operators did',
  description:
    'At most seven days. Minutes in which nothing happened are left out, and the first one is that of `from`.',
  tag: 'admin',
  caller: 'admin',
  params: z.object({ id: campaignId }),
  query,
  answers: {
    200: {
      description: 'The minutes, oldest first, or the same as CSV.',
      data: z.object({
        from: z.iso.datetime(),
        to: z.iso.datetime(),
        minutes: z.array(minute),
        actions: z.array(z.object({ at: z.iso.datetime(), by: z.string(), action: z.string() })),
      }),
      contentTypes: ['text/csv'],
      optionalHeaders: ['Content-Disposition', AS_OF],
    },
  },
  errors: ['unauthorized', 'forbidden', 'invalid_request', 'campaign_not_found', 'temporarily_unavailable'],
} satisfies RouteContract;

export type HistoryRouteDeps = {
  campaigns: Campaigns;
  database: Database;
  reads: LargeReads<SaleMinutes>;
  apiKeys: ApiKeys;
  nowMs: () => number;
};

/** GET /admin/campaigns/:id/history: minutes of a sale as JSON, or as CSV without what operators did. */
export function historyRoute({ campaigns, database, reads, apiKeys, nowMs }: HistoryRouteDeps): Route {
  return defineRoute(contract, async (call) => {
    const { req } = call;
    apiKeys.require(req, 'admin');
    const wanted = validate(query, req.query);
    const campaign = await campaigns.find(validate(contract.params, req.params).id);
    const { from, to } = rangeOf(campaign, wanted, nowMs());
    const { table, headers } = await reads();
    const minutes = await table.read(campaign.id, from, to);
    if (wantsCsv(req, wanted.format)) return sendCsv(call, minutes, headers, campaign);
    const actions = await operatorActions(database, campaign.id, from, to, ACTIONS);
    call.reply(
      200,
      {
        from: from.toISOString(),
        to: to.toISOString(),
        minutes: minutes.map((one) => ({ ...one, minute: one.minute.toISOString() })),
        actions: actions.map(({ at, actor, action }) => ({ at: at.toISOString(), by: actor, action })),
      },
      headers,
    );
  });
}

function rangeOf(
  { startsAt, createdAt }: StoredCampaign,
  given: { from?: string | undefined; to?: string | undefined },
  nowMs: number,
): { from: Date; to: Date } {
  // The next minute, so that what has just happened is in it.
  const toMs = given.to === undefined ? nowMs + 60_000 : Date.parse(given.to);
  const firstMs = Math.min(startsAt.getTime(), createdAt.getTime());
  const fromMs = given.from === undefined ? Math.max(firstMs, toMs - MAX_DAYS * DAY_MS) : Date.parse(given.from);
  if (toMs <= fromMs) throw invalidFields({ pointer: '#/to', detail: 'must be later than from' });
  if (toMs - fromMs > MAX_DAYS * DAY_MS)
    throw invalidFields({ pointer: '#/from', detail: `must be at most ${MAX_DAYS} days before to` });
  return { from: new Date(fromMs), to: new Date(toMs) };
}

function sendCsv(
  call: Call<typeof contract>,
  minutes: readonly SaleMinute[],
  headers: readonly string[],
  { productId }: StoredCampaign,
): void {
  const { req, res } = call;
  const text = stringify([...minutes], {
    header: true,
    columns: [...MINUTE_COLUMNS],
    cast: { date: (date) => date.toISOString() },
  });
  call.begin(200, [...csvHeaders(req, `sale-${productId}`), ...headers]);
  res.end(text);
}
