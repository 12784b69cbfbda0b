import { z } from 'zod';
import type { ApiKeys } from '../guards/auth/api-keys.js';
import { defineRoute } from '../http/define-route.js';
import type { Route } from '../http/route.js';
import { validate } from '../http/validate.js';
import type { Campaigns } from './campaigns.js';
import type { DuplicatePayments } from './duplicate-payments.js';

const MAX_SHOWN = 1_000;
const params = z.object({ id: z.string().min(1).max(128).describe('campaign id or product id') });
const query = z.object({ limit: z.coerce.number().int().min(1).max(MAX_SHOWN).default(100) });
const rowData = z
  .object({
    reservation_id: z.uuid(),
    user_id: z.string(),
    order_id: z.string(),
    already_paid_by: z.string().nullable().describe('`payment_ref` of the first payment'),
    payment_ref: z.string(),
    paid_at: z.iso.datetime(),
  })
  .meta({ id: 'DuplicatePayment' });

export type DuplicatePaymentsRouteDeps = {
  campaigns: Campaigns;
  duplicatePayments: DuplicatePayments;
  apiKeys: ApiKeys;
};

/** GET /admin/campaigns/:id/duplicate-payments: reservations that were paid more than once. */
export function duplicatePaymentsRoute(deps: DuplicatePaymentsRouteDeps): Route {
  const { campaigns, duplicatePayments, apiKeys } = deps;
  return defineRoute(
    {
      operationId: 'listDuplicatePayments',
      method: 'get',
      path: '/admin/campaigns/:id/duplicate-payments',
      summary: 'Second payments of reservations',
      description: 'Latest first. The payment service has to refund one of the two payments.',
      tag: 'admin',
      caller: 'admin',
      params,
      query,
      answers: { 200: { description: 'The latest duplicate payments.', data: z.array(rowData) } },
      errors: ['unauthorized', 'forbidden', 'invalid_request', 'campaign_not_found', 'temporarily_unavailable'],
    },
    async (call) => {
      const { req } = call;
      apiKeys.require(req, 'admin');
      const { limit } = validate(query, req.query);
      const { id } = await campaigns.find(validate(params, req.params).id);
      const rows = await duplicatePayments.latest(id, limit);
      call.reply(
        200,
        rows.map((row) => ({ ...row, paid_at: row.paid_at.toISOString() })),
      );
    },
  );
}
