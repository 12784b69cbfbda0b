import type { Request } from 'express';
import { ACTORS } from '../../shared/domain/actors.js';
import { assertNever } from '../../shared/domain/assert-never.js';
import { bucketOfReservation } from '../../shared/domain/buckets.js';
import { Problem } from '../../shared/errors/catalogue.js';
import type { Log } from '../../shared/observability/log.js';
import type { Metrics } from '../../shared/observability/metrics.js';
import type { SalesOf } from '../../shared/sale/sales.js';
import type { Acknowledgements } from '../claim/acknowledgement.js';
import type { ApiKeys } from '../guards/auth/api-keys.js';
import type { Ticket, Tickets } from '../guards/auth/ticket.js';
import type { PolicyCache } from '../guards/limits/policy-cache.js';
import { defineRoute } from '../http/define-route.js';
import { readJson } from '../http/json-body.js';
import type { Route } from '../http/route.js';
import { validate } from '../http/validate.js';
import {
  confirmBody,
  confirmContract,
  extendBody,
  extendContract,
  holderReleaseBody,
  refundBody,
  refundContract,
  releaseBody,
  releaseContract,
} from './payment.contract.js';
import type { Located, ReservationLookup } from './reservation-lookup.js';

export type PaymentDeps = {
  sales: SalesOf;
  lookup: ReservationLookup;
  acknowledgements: Acknowledgements;
  apiKeys: ApiKeys;
  tickets: Tickets;
  policies: Pick<PolicyCache, 'of'>;
  metrics: Metrics;
  log: Log;
};

/** POST /flash-sale/confirm, /release and /refund: the calls of a payment service. One script decides each call. */
export function paymentRoutes(deps: PaymentDeps): Route[] {
  const { sales, lookup, acknowledgements, apiKeys, tickets, metrics } = deps;
  return [
    defineRoute(confirmContract, async (call) => {
      const { req } = call;
      const actor = apiKeys.require(req, 'service');
      const body = validate(confirmBody, await readJson(req));
      const at = await lookup.find(body);
      const outcome = await sales
        .of(at.product, bucketOfReservation(at.id))
        .reservations.confirm(at.product, at.id, body.payment_ref ?? '', { actor, trace: req.trace });
      record(deps, req, 'confirm', at, outcome.kind);
      // Refusing a reservation that has just expired also acknowledges its expiry.
      if (outcome.kind !== 'not_found') await acknowledgements.held(at.product, outcome, bucketOfReservation(at.id));
      switch (outcome.kind) {
        case 'redeemed':
          if (outcome.paidBy !== '' && outcome.journalId !== '') metrics.duplicatePayments.inc();
          return call.reply(200, {
            reservation_id: at.id,
            status: 'redeemed',
            order_id: outcome.orderId,
            ...(outcome.paidBy === '' ? {} : { already_paid_by: outcome.paidBy }),
            ...(outcome.reacquired ? { reacquired: true } : {}),
            ...(outcome.qty === null ? {} : { qty: outcome.qty }),
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
      const { ticket, actor } = callerOfRelease(req, apiKeys, tickets);
      const json = await readJson(req);
      const body = ticket ? validate(holderReleaseBody, json) : validate(releaseBody, json);
      const at = await lookup.find(body);
      const isOther = ticket && ticket.reservation !== at.id;
      if (ticket && (ticket.campaignNo !== at.campaignNo || isOther)) throw call.refusal(foreign());
      const outcome = await sales
        .of(at.product, bucketOfReservation(at.id))
        .reservations.release(
          at.product,
          at.id,
          ticket?.user ?? null,
          body.reason ?? '',
          { actor, trace: req.trace },
          body.keep,
        );
      record(deps, req, 'release', at, outcome.kind);
      if (outcome.kind === 'released' || outcome.kind === 'kept' || outcome.kind === 'settled')
        await acknowledgements.held(at.product, outcome, bucketOfReservation(at.id));
      switch (outcome.kind) {
        case 'released':
          if (body.keep) throw call.refusal('reservation_released', `The reservation is ${outcome.state}.`);
          return call.reply(200, { reservation_id: at.id, released: true, status: outcome.state });
        case 'kept':
          return call.reply(200, {
            reservation_id: at.id,
            released: false,
            status: 'reserved',
            qty: outcome.qty,
            released_qty: outcome.released,
          });
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
    defineRoute(extendContract, async (call) => {
      const { req } = call;
      const actor = apiKeys.require(req, 'service');
      const at = await lookup.find(validate(extendBody, await readJson(req)));
      const { extendSeconds } = deps.policies.of(at.product);
      if (extendSeconds === 0) throw call.refusal('extension_not_allowed', 'The campaign has no `extend_seconds`.');
      const bucket = bucketOfReservation(at.id);
      const { reservations } = sales.of(at.product, bucket);
      const outcome = await reservations.extend(at.product, at.id, extendSeconds * 1000, { actor, trace: req.trace });
      record(deps, req, 'extend', at, outcome.kind);
      switch (outcome.kind) {
        case 'extended':
          await acknowledgements.held(at.product, outcome, bucket);
          return call.reply(200, {
            reservation_id: at.id,
            status: 'extended',
            pay_before: new Date(outcome.dueMs).toISOString(),
          });
        case 'ended':
          throw call.refusal('reservation_released', `The reservation is ${outcome.state}.`);
        case 'settled':
          throw call.refusal(settledProblem(outcome.state));
        case 'not_found':
          throw call.refusal(notFound());
        default:
          return assertNever(outcome);
      }
    }),
    defineRoute(refundContract, async (call) => {
      const { req } = call;
      const actor = apiKeys.require(req, 'service');
      const body = validate(refundBody, await readJson(req));
      const at = await lookup.find(body);
      const outcome = await sales
        .of(at.product, bucketOfReservation(at.id))
        .reservations.refund(at.product, at.id, { actor, trace: req.trace }, body.keep);
      record(deps, req, 'refund', at, outcome.kind);
      if (outcome.kind === 'refunded' || outcome.kind === 'kept')
        await acknowledgements.held(at.product, outcome, bucketOfReservation(at.id));
      switch (outcome.kind) {
        case 'kept':
          return call.reply(200, {
            reservation_id: at.id,
            status: 'redeemed',
            returned_to_stock: outcome.refunded > 0 && outcome.burned === 0,
            qty: outcome.qty,
            refunded_qty: outcome.refunded,
          });
        case 'refunded':
          if (body.keep) throw call.refusal('reservation_refunded', 'The whole reservation has already been refunded.');
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
function callerOfRelease(req: Request, apiKeys: ApiKeys, tickets: Tickets): { ticket: Ticket | null; actor: string } {
  const ticket = tickets.of(req);
  if (ticket && !apiKeys.presented(req)) return { ticket, actor: ACTORS.shopper };
  return { ticket: null, actor: apiKeys.require(req, 'service') };
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
