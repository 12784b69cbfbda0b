import { z } from 'zod';
import type { ProductId } from '../../shared/domain/ids.js';
import type { RedisClock } from '../../shared/redis/redis-clock.js';
import type { Sales } from '../../shared/sale/sales.js';
import { defineRoute } from '../http/define-route.js';
import { externalId } from '../http/fields.js';
import type { Route, RouteContract } from '../http/route.js';
import { validate } from '../http/validate.js';

const query = z.object({ product_id: externalId });

const contract = {
  operationId: 'getLineProgress',
  method: 'get',
  path: '/flash-sale/line',
  summary: 'How far the line of a sale has come',
  description:
    'For clients in line without a socket. A user at position p is at position p - n at most when `served` has grown by n, so few of ' +
    'their requests need queue-status. It contains nothing of a user: a CDN may cache it for a second, and one request a second then ' +
    'serves the whole line. docs/sale-page.md has the bound of the error.',
  tag: 'waiting room',
  caller: 'anyone',
  query,
  answers: {
    200: {
      description: 'The state of the line at `server_time`.',
      data: z.object({
        product_id: z.string(),
        served: z
          .int()
          .min(0)
          .describe('users who got a unit from the line, counted since the line began; less than before = a new line'),
        waiting: z.int().min(0),
        must_be_seen: z
          .boolean()
          .describe('the campaign has `presence_seconds`: users in line have to request queue-status themselves'),
        server_time: z.iso.datetime(),
      }),
    },
  },
  errors: ['invalid_request', 'campaign_not_found', 'temporarily_unavailable'],
} satisfies RouteContract;

const FOR_A_SECOND = 'public, max-age=1';

export type LineDeps = { sales: Pick<Sales, 'all'>; clock: RedisClock };

/** GET /flash-sale/line. It costs one small read of Redis, of each bucket in a divided campaign. */
export function lineRoute({ sales, clock }: LineDeps): Route {
  return defineRoute(contract, async (call) => {
    const { req } = call;
    const product = validate(query, req.query).product_id as ProductId;
    const lines = await Promise.all(sales.all(product).map(({ reader }) => reader.lineProgress(product)));
    const [first] = lines;
    if (!first || first.status === 'draft') throw call.refusal('campaign_not_found', 'No campaign sells this product.');
    const data = {
      product_id: product,
      served: lines.reduce((sum, line) => sum + (line?.served ?? 0), 0),
      waiting: lines.reduce((sum, line) => sum + (line?.waiting ?? 0), 0),
      must_be_seen: first.mustBeSeen,
      server_time: new Date(clock.nowMs()).toISOString(),
    };
    // A cache must not give a page of another origin a response without its CORS fields.
    call.replyCacheable(200, data, FOR_A_SECOND, req.cors.length > 0 ? [] : ['Vary', 'Origin']);
  });
}
