import { campaignOfNumber } from '../../shared/domain/buckets.js';
import { campaignNoOf } from '../../shared/domain/ids.js';
import type { Log } from '../../shared/observability/log.js';
import { writeAudit } from '../../shared/postgres/audit-log.js';
import type { PaymentEventsTable } from '../../shared/postgres/payment-events.js';
import type { Queryable } from '../../shared/postgres/pool.js';
import type { ApiKeys } from '../guards/auth/api-keys.js';
import { defineRoute } from '../http/define-route.js';
import { readJson } from '../http/json-body.js';
import type { Route } from '../http/route.js';
import { validate } from '../http/validate.js';
import { settleBody, settleContract } from './payment-search.contract.js';

export type PaymentSettlementDeps = { table: PaymentEventsTable; apiKeys: ApiKeys; log: Log };

/**
 * POST /admin/payment-events/settle: an operator marks that a payment needs no action. The audit log gets an entry for
 * each reservation of the event.
 */
export function paymentSettlementRoute({ table, apiKeys, log }: PaymentSettlementDeps): Route {
  return defineRoute(settleContract, async (call) => {
    const { req } = call;
    const name = apiKeys.require(req, 'admin');
    const { provider, event_id, reason } = validate(settleBody, await readJson(req));
    const { events, isNew } = await table.database.transaction(async (client) => {
      const settled = await table.settle(client, provider, event_id);
      if (settled.isNew)
        for (const { reservation, paymentRef, outcome } of settled.events)
          await writeAudit(client, {
            actor: name,
            action: 'payment.settle',
            campaignId: await campaignOf(client, reservation),
            before: { outcome },
            after: {
              ...{ provider, event_id, ...(paymentRef === null ? {} : { payment_ref: paymentRef }) },
              ...(reservation === null ? {} : { reservation_id: reservation }),
              ...(reason ? { reason } : {}),
            },
            requestId: req.requestId,
          });
      return settled;
    });
    const [event] = events;
    if (!event) throw call.refusal('payment_event_not_found', 'No payment event of this provider has this id.');
    if (isNew) log.info({ request_id: req.requestId, operator: name, provider, event_id }, 'payment.settle');
    call.reply(200, { provider, event_id, settled_at: event.settledAt.toISOString() });
  });
}

/** @returns the campaign id of a reservation; null = the event names none */
async function campaignOf(client: Queryable, reservation: string | null): Promise<string | null> {
  if (reservation === null) return null;
  const no = campaignOfNumber(campaignNoOf(reservation));
  const { rows } = await client.query<{ id: string }>('select campaign_id as id from campaigns where no = $1', [no]);
  return rows[0]?.id ?? null;
}
