import { z } from 'zod';
import type { ProductId } from '../../shared/domain/ids.js';
import { defineRoute } from '../http/define-route.js';
import { externalId, requestHeaders } from '../http/fields.js';
import type { Route, RouteContract } from '../http/route.js';
import { API_HEADERS } from '../http/security-headers.js';
import { validate } from '../http/validate.js';
import { type PublicSales, publicSale } from './public-sales.js';

const query = z.object({ product_id: externalId });

const contract = {
  operationId: 'getSale',
  method: 'get',
  path: '/flash-sale/campaign',
  summary: 'The public data of a sale',
  description:
    'For pages: the name, the times and the server’s clock for a countdown. It contains no number of units or shoppers, ' +
    'and nothing of a user, so that a CDN may cache it for a second.',
  tag: 'flash sale',
  caller: 'anyone',
  query,
  headers: z.object(requestHeaders).pick({ 'if-none-match': true }),
  answers: {
    200: { description: 'The state of the sale at `server_time`.', data: publicSale, headers: ['ETag'] },
    304: { description: 'Nothing but the time has changed since `If-None-Match`.', headers: ['ETag'] },
  },
  errors: ['invalid_request', 'campaign_not_found', 'temporarily_unavailable'],
} satisfies RouteContract;

/** How long a CDN or a browser may return the same response. */
export const FOR_A_SECOND = 'public, max-age=1';

/** GET /flash-sale/campaign */
export function campaignViewRoute(publicSales: PublicSales): Route {
  return defineRoute(contract, async (call) => {
    const { req, res } = call;
    const found = await publicSales.of(validate(query, req.query).product_id as ProductId);
    if (!found) throw call.refusal('campaign_not_found', 'No campaign sells this product.');
    // Weak: the bodies of one version differ in `server_time`.
    const etag = `W/"${found.version}"`;
    // A cache must not give a page of another origin a response without its CORS fields.
    const headers = ['ETag', etag, ...(req.cors.length > 0 ? [] : ['Vary', 'Origin'])];
    if (req.headers['if-none-match']?.split(/,\s*/).includes(etag)) {
      const id = ['X-Request-Id', req.requestId];
      call.begin(304, [...API_HEADERS, 'Cache-Control', FOR_A_SECOND, ...headers, ...id, ...req.cors]);
      res.end();
      return;
    }
    call.replyCacheable(200, found.sale, FOR_A_SECOND, headers);
  });
}
