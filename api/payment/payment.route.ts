import type { Request } from 'express';
import { assertNever } from '../../shared/domain/assert-never.js';
import { type CampaignNo, type ProductId, parseReservationId, type ReservationId } from '../../shared/domain/ids.js';
import { Problem } from '../../shared/errors/catalogue.js';
import type { Log } from '../../shared/observability/log.js';
import type { Metrics } from '../../shared/observability/metrics.js';
import type { CampaignDirectory } from '../../shared/sale/campaign-directory.js';
import type { SalesOf } from '../../shared/sale/sales.js';
import type { Acknowledgements } from '../claim/acknowledgement.js';
import type { ApiKeys } from '../guards/auth/api-keys.js';
import type { Ticket, Tickets } from '../guards/auth/ticket.js';
import { defineRoute } from '../http/define-route.js';
import { readJson } from '../http/json-body.js';
import type { Route } from '../http/route.js';
import { validate } from '../http/validate.js';
import {
  confirmBody,
  confirmContract,
  refundBody,
  refundContract,
  releaseBody,
  releaseContract,
} from './payment.contract.js';

export type PaymentDeps = {
  sales: SalesOf;
  directory: CampaignDirectory;
  acknowledgements: Acknowledgements;
  apiKeys: ApiKeys;
  tickets: Tickets;
  metrics: Metrics;
  log: Log;
};

type Located = { id: ReservationId; campaignNo: CampaignNo; product: ProductId };

/** POST /flash-sale/confirm, /release and /refund: the calls of a payment service. One script decides each call. */
export function paymentRoutes(deps: PaymentDeps): Route[] {
  const { sales, acknowledgements, apiKeys, tickets, metrics } = deps;
  return [
    defineRoute(confirmContract, async (call) => {
      const { req } = call;
      apiKeys.require(req, 'service');
      const body = validate(confirmBody, await readJson(req));
      const at = await locate(deps, body.reservation_id);
      const outcome = await sales
        .of(at.product)
        .reservations.confirm(at.product, at.id, body.payment_ref ?? '', req.trace);
      record(deps, req, 'confirm', at, outcome.kind);
      // Refusing a reservation that has just expired also acknowledges its expiry.
      if (outcome.kind !== 'not_found') await acknowledgements.held(at.product, outcome);
      switch (outcome.kind) {
        case 'redeemed':
          if (outcome.paidBy !== '' && outcome.journalId !== '') metrics.duplicatePayments.inc();
          return call.reply(200, {
            reservation_id: at.id,
            status: 'redeemed',
            order_id: outcome.orderId,
            ...(outcome.paidBy === '' ? {} : { already_paid_by: outcome.paidBy }),
            ...(outcome.reacquired ? { reacquired: true } : {}),
          });
        case 'ended':
          throw call.refusal(endedProblem(outcome.state));
        case 'not_found':
          throw call.refusal(notFound());
        default:
          return assertNever(outcome);
      }
    }),
    defineRoute(releaseContract, async (call) => {
      const { req } = call;
      const ticket = callerOfRelease(req, apiKeys, tickets);
      // Unknown fields are ignored in a shopper's body and rejected in a service's body.
      const body = validate(ticket ? releaseContract.body : releaseBody, await readJson(req));
      const at = await locate(deps, body.reservation_id);
      const isOther = ticket && ticket.reservation !== null && ticket.reservation !== at.id;
      if (ticket && (ticket.campaignNo !== at.campaignNo || isOther)) throw call.refusal(foreign());
      const outcome = await sales
        .of(at.product)
        .reservations.release(at.product, at.id, ticket?.user ?? null, body.reason ?? '', req.trace);
      record(deps, req, 'release', at, outcome.kind);
      if (outcome.kind === 'released' || outcome.kind === 'settled') await acknowledgements.held(at.product, outcome);
      switch (outcome.kind) {
        case 'released':
          return call.reply(200, { reservation_id: at.id, released: true, status: outcome.state });
        case 'settled':
          throw call.refusal(settledProblem(outcome.state));
        case 'foreign':
          throw call.refusal(foreign());
        case 'not_found':
          throw call.refusal(notFound());
        default:
          return assertNever(outcome);
      }
    }),
    defineRoute(refundContract, async (call) => {
      const { req } = call;
      apiKeys.require(req, 'service');
      const body = validate(refundBody, await readJson(req));
      const at = await locate(deps, body.reservation_id);
      const outcome = await sales.of(at.product).reservations.refund(at.product, at.id, req.trace);
      record(deps, req, 'refund', at, outcome.kind);
      if (outcome.kind === 'refunded') await acknowledgements.held(at.product, outcome);
      switch (outcome.kind) {
        case 'refunded':
          return call.reply(200, {
            reservation_id: at.id,
            status: 'refunded',
            returned_to_stock: outcome.returned,
          });
        case 'unpaid':
          throw call.refusal('reservation_not_redeemed', `The reservation is ${outcome.state}.`);
        case 'not_found':
          throw call.refusal(notFound());
        default:
          return assertNever(outcome);
      }
    }),
  ];
}

/**
 * Returns the ticket of a call by the holder; null = a call by a service. A ticket does not excuse a wrong bearer key.
 */
function callerOfRelease(req: Request, apiKeys: ApiKeys, tickets: Tickets): Ticket | null {
  const ticket = tickets.of(req);
  if (ticket && !apiKeys.presented(req)) return ticket;
  apiKeys.require(req, 'service');
  return null;
}

async function locate(deps: PaymentDeps, text: string): Promise<Located> {
  const parsed = parseReservationId(text);
  const product = parsed && (await deps.directory.productOf(parsed.campaignNo));
  if (!parsed || !product) throw notFound();
  return { ...parsed, product };
}

function record(deps: PaymentDeps, req: Request, call: string, at: Located, outcome: string): void {
  deps.metrics.payments.inc({ call, outcome });
  deps.log.info(
    { request_id: req.requestId, trace: req.trace || undefined, campaign: at.product, reservation: at.id, outcome },
    call,
  );
}

const notFound = () => new Problem('reservation_not_found', 'No reservation has this id.');
const foreign = () => new Problem('forbidden', 'The reservation belongs to another ticket.');

function endedProblem(state: 'released' | 'expired' | 'refunded' | 'burned' | 'voided') {
  if (state === 'released' || state === 'expired') {
    return new Problem(
      'reservation_released',
      `The reservation is ${state}, and its unit could not be reserved again.`,
    );
  }
  return goneProblem(state);
}

function goneProblem(state: 'refunded' | 'burned' | 'voided') {
  if (state === 'voided')
    return new Problem('reservation_voided', 'The reservation was voided because it broke a limit of the campaign.');
  return new Problem('reservation_refunded', 'The reservation has already been refunded.');
}

function settledProblem(state: 'redeemed' | 'reacquired' | 'refunded' | 'burned' | 'voided') {
  if (state === 'redeemed' || state === 'reacquired') {
    return new Problem('reservation_redeemed', 'The reservation is paid. Use /flash-sale/refund.');
  }
  return goneProblem(state);
}
