import { z } from 'zod';
import { assertNever } from '../../shared/domain/assert-never.js';
import type { Log } from '../../shared/observability/log.js';
import type { CampaignDirectory } from '../../shared/sale/campaign-directory.js';
import type { SalesOf } from '../../shared/sale/sales.js';
import type { Acknowledgements } from '../claim/acknowledgement.js';
import type { Tickets } from '../guards/auth/ticket.js';
import { defineRoute } from '../http/define-route.js';
import type { Route, RouteContract } from '../http/route.js';

const contract = {
  operationId: 'leaveQueue',
  method: 'delete',
  path: '/flash-sale/queue',
  summary: 'Leave the line',
  description: 'Idempotent. The ticket identifies the user and the line.',
  tag: 'waiting room',
  caller: 'ticket',
  headers: z.object({ 'x-ticket': z.string() }),
  answers: { 200: { description: 'The user has left the line.', data: z.object({ status: z.literal('left') }) } },
  errors: ['ticket_invalid', 'campaign_not_found', 'not_waiting', 'temporarily_unavailable'],
} satisfies RouteContract;

export type LeaveDeps = {
  sales: SalesOf;
  directory: CampaignDirectory;
  acknowledgements: Acknowledgements;
  tickets: Tickets;
  log: Log;
};

/** DELETE /flash-sale/queue. */
export function leaveRoute({ sales, directory, acknowledgements, tickets, log }: LeaveDeps): Route {
  return defineRoute(contract, async (call) => {
    const { req } = call;
    const ticket = tickets.required(req);
    const product = await directory.productOf(ticket.campaignNo);
    const bucket = product ? sales.bucketOf(product, ticket.user) : 0;
    const outcome = product
      ? await sales.of(product, bucket).line.leave(product, ticket.user, ticket.reservation, req.trace)
      : ({ kind: 'not_found' } as const);
    log.info({ request_id: req.requestId, campaign: product, outcome: outcome.kind }, 'leave');
    if (product && outcome.kind === 'left') await acknowledgements.held(product, outcome, bucket);
    switch (outcome.kind) {
      case 'left':
        return call.reply(200, { status: 'left' });
      case 'not_waiting':
        throw call.refusal('not_waiting', 'The user of this ticket is not in the line.');
      case 'not_found':
        throw call.refusal('campaign_not_found', 'The campaign of this ticket does not exist any more.');
      default:
        return assertNever(outcome);
    }
  });
}
