import { EXTERNAL_ID_PATTERN, type ProductId } from '../../shared/domain/ids.js';
import { defineRoute } from '../http/define-route.js';
import type { Route, RouteContract } from '../http/route.js';
import { PAGE_HEADERS } from '../http/security-headers.js';
import { calendarFile } from './calendar.js';
import type { PublicSales } from './public-sales.js';

const contract = {
  operationId: 'getCalendar',
  method: 'get',
  path: '/sale/:product_id/start.ics',
  summary: 'The start of a sale for a calendar',
  tag: 'flash sale',
  caller: 'anyone',
  answers: {
    200: { description: 'A calendar file.', contentTypes: ['text/calendar'], headers: ['Content-Disposition'] },
  },
  errors: ['not_found', 'temporarily_unavailable'],
} satisfies RouteContract;

/** GET /sale/:product_id/start.ics */
export function calendarRoute(publicSales: PublicSales): Route {
  return defineRoute(contract, async (call) => {
    const { req, res } = call;
    const product = String(req.params.product_id);
    const found = EXTERNAL_ID_PATTERN.test(product) ? await publicSales.of(product as ProductId) : null;
    if (!found) throw call.refusal('not_found', 'No campaign sells this product.');
    // The host is what the client sent, and the response is for this client alone.
    const page = `${req.protocol}://${req.get('host')}/sale/${encodeURIComponent(product)}`;
    const body = calendarFile(found, page);
    call.begin(200, [
      ...PAGE_HEADERS,
      ...['Cache-Control', 'no-store', 'X-Request-Id', req.requestId],
      ...['Content-Type', 'text/calendar; charset=utf-8', 'Content-Length', String(Buffer.byteLength(body))],
      ...['Content-Disposition', 'attachment; filename="sale.ics"'],
    ]);
    res.end(body);
  });
}
