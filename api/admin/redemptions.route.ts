import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { stringify } from 'csv-stringify';
import { z } from 'zod';
import type { Campaign } from '../../shared/domain/campaign.js';
import { REDEMPTION_STATUSES } from '../../shared/domain/reservation.js';
import { writeExport } from '../../shared/postgres/audit-log.js';
import type { Database } from '../../shared/postgres/pool.js';
import {
  type PromiseAt,
  REDEMPTION_COLUMNS,
  type RedemptionRow,
  type RedemptionsTable,
} from '../../shared/postgres/redemptions.js';
import type { ApiKeys } from '../guards/auth/api-keys.js';
import { csvHeaders, wantsCsv } from '../http/csv.js';
import { type Call, defineRoute } from '../http/define-route.js';
import { campaignId } from '../http/fields.js';
import type { Route, RouteContract } from '../http/route.js';
import { validate } from '../http/validate.js';
import type { Campaigns } from './campaigns.js';
import { AS_OF, type LargeReads } from './large-reads.js';

const CSV_PAGE_ROWS = 2_000;
/** When the last promise of a page was made (ms since 1970), and its id. */
const CURSOR = /^(\d{1,14})-([\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12})$/;
const params = z.object({ id: campaignId });
const query = z.object({
  limit: z.coerce.number().int().min(1).max(1_000).default(100),
  cursor: z.string().regex(CURSOR, 'must be the `next_cursor` of the previous page').transform(promiseAt).optional(),
  format: z.enum(['json', 'csv']).optional().describe('`Accept: text/csv` is an alternative to `csv`'),
});

const rowData = z
  .object({
    redemption_id: z.uuid(),
    user_id: z.string(),
    order_id: z.string(),
    qty: z.int().describe('units that it has, without those that were given back in parts'),
    status: z.enum(REDEMPTION_STATUSES),
    burned: z.boolean(),
    reserved_at: z.iso.datetime(),
    pay_before: z.iso.datetime().nullable(),
    redeemed_at: z.iso.datetime().nullable(),
    released_at: z.iso.datetime().nullable(),
    refunded_at: z.iso.datetime().nullable(),
    reason: z.string().nullable(),
    payment_ref: z.string().nullable(),
    released_qty: z.int().describe('units that were given back before the payment, while it kept others'),
    refunded_qty: z.int().describe('units that were refunded, while it kept others'),
    burned_qty: z.int().describe('those of `refunded_qty` that are not sold again'),
  })
  .meta({ id: 'Redemption' });

const contract = {
  operationId: 'listRedemptions',
  method: 'get',
  path: '/admin/campaigns/:id/redemptions',
  summary: 'The redemptions of a campaign',
  description:
    'In the order in which their units were promised. `next_cursor` beside `data` is the cursor of the next page; null = the last page. ' +
    'A reader who continues by it during a sale gets each redemption once. Those of a campaign with `buckets`, and those that were ' +
    'recovered after a failover, may be a few seconds late and then before the cursor: events miss none.',
  tag: 'admin',
  caller: 'admin',
  params,
  query,
  answers: {
    200: {
      description: 'A page of redemptions, or all of them as CSV.',
      data: z.array(rowData),
      members: z.object({ next_cursor: z.string().nullable() }),
      contentTypes: ['text/csv'],
      optionalHeaders: ['Content-Disposition', AS_OF],
    },
  },
  errors: ['unauthorized', 'forbidden', 'invalid_request', 'campaign_not_found', 'temporarily_unavailable'],
} satisfies RouteContract;

export type RedemptionsRouteDeps = {
  campaigns: Campaigns;
  reads: LargeReads<RedemptionsTable>;
  /** For the audit log. */
  database: Database;
  apiKeys: ApiKeys;
};

/** GET /admin/campaigns/:id/redemptions: pages of JSON, or all redemptions as streamed CSV. */
export function redemptionsRoute({ campaigns, reads, database, apiKeys }: RedemptionsRouteDeps): Route {
  return defineRoute(contract, async (call) => {
    const { req } = call;
    const actor = apiKeys.require(req, 'admin');
    const { limit, cursor, format } = validate(query, req.query);
    const campaign = await campaigns.find(validate(params, req.params).id);
    const { table, headers } = await reads();
    if (wantsCsv(req, format)) {
      if (req.method !== 'HEAD')
        await writeExport(
          database,
          'redemptions.export',
          { actor, requestId: req.requestId },
          { campaignId: campaign.id },
        );
      return streamCsv(call, table, headers, campaign);
    }
    const page = await table.page(campaign.id, limit, cursor ?? null);
    const last = page.length === limit ? page.at(-1) : undefined;
    call.reply(200, page.map(view), headers, { next_cursor: last ? cursorOf(last) : null });
  });
}

function cursorOf({ reserved_at, redemption_id }: PromiseAt): string {
  return `${reserved_at.getTime()}-${redemption_id}`;
}

function promiseAt(cursor: string): PromiseAt {
  const [, ms = '', redemption_id = ''] = CURSOR.exec(cursor) ?? [];
  return { reserved_at: new Date(Number(ms)), redemption_id };
}

function view(row: RedemptionRow): z.input<typeof rowData> {
  const { reserved_at, pay_before, redeemed_at, released_at, refunded_at } = row;
  return {
    ...row,
    reserved_at: reserved_at.toISOString(),
    pay_before: pay_before?.toISOString() ?? null,
    redeemed_at: redeemed_at?.toISOString() ?? null,
    released_at: released_at?.toISOString() ?? null,
    refunded_at: refunded_at?.toISOString() ?? null,
  };
}

async function streamCsv(
  call: Call<typeof contract>,
  redemptions: RedemptionsTable,
  headers: readonly string[],
  { id, productId }: Pick<Campaign, 'id' | 'productId'>,
): Promise<void> {
  // Reads the first page before the status is sent, so that an outage still leads to 503.
  let page = await redemptions.page(id, CSV_PAGE_ROWS, null);
  async function* rows(): AsyncGenerator<RedemptionRow> {
    for (;;) {
      yield* page;
      const last = page.at(-1);
      if (!last || page.length < CSV_PAGE_ROWS) return;
      page = await redemptions.page(id, CSV_PAGE_ROWS, last);
    }
  }
  const { req, res } = call;
  call.begin(200, [...csvHeaders(req, `redemptions-${productId}`), ...headers]);
  await pipeline(
    Readable.from(rows()),
    stringify({
      header: true,
      columns: [...REDEMPTION_COLUMNS],
      // Spreadsheets treat a cell that begins with = or @ as a formula.
      escape_formulas: true,
      cast: { date: (date) => date.toISOString(), boolean: (flag) => String(flag) },
    }),
    res,
  );
}
