import type { Request } from 'express';
import { ACTORS } from '../../shared/domain/actors.js';
import { assertNever } from '../../shared/domain/assert-never.js';
import { bucketOfReservation } from '../../shared/domain/buckets.js';
import { Problem } from '../../shared/errors/catalogue.js';
import { EngineUnavailable } from '../../shared/errors/faults.js';
import type { Log } from '../../shared/observability/log.js';
import type { Metrics } from '../../shared/observability/metrics.js';
import type { Located, ReservationLookup } from '../../shared/payments/reservation-lookup.js';
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
import { decideAll, done, refused } from './several.js';

export type PaymentDeps = {
  sales: SalesOf;
  lookup: ReservationLookup;
  acknowledgements: Acknowledgements;
  apiKeys: ApiKeys;
  tickets: Tickets;
  policies: Pick<PolicyCache, 'of'>;
  /**
   * Whether Postgres accepts a unit that was reserved again: a code of another shard on its order may exclude it.
   * @throws EngineUnavailable if that takes too long
   */
  isInForce: (at: Located) => Promise<boolean>;
  metrics: Metrics;
  log: Log;
};

/** POST /flash-sale/confirm, /release, /extend and /refund, for payment services. A script decides each reservation. */
export function paymentRoutes(deps: PaymentDeps): Route[] {
  const { sales, lookup, acknowledgements, apiKeys, tickets, metrics } = deps;
  return [
    defineRoute(confirmContract, async (call) => {
      const { req } = call;
      const actor = apiKeys.require(req, 'service');
      const body = validate(confirmBody, await readJson(req));
      const data = await decideAll(body, await lookup.find(body, 'call'), async (at) => {
        // It was given up, so the payment of its order is not for it.
        if (at.ended === 'released') return refused('released', endedProblem('released'));
        const bucket = bucketOfReservation(at.id);
        const { reservations } = sales.of(at.product, bucket);
        const by = { actor, trace: req.trace };
        // One that has ended is not reserved again before it is known whether its order has others.
        const confirm = at.mayHaveOthers ? reservations.confirmHeld : reservations.confirm;
        const outcome = await confirm.call(reservations, at.product, at.id, body.payment_ref ?? '', by);
        record(deps, req, 'confirm', at, outcome.kind);
        // Refusing a reservation that has just expired also acknowledges its expiry.
        if (outcome.kind !== 'not_found') await acknowledgements.held(at.product, outcome, bucket);
        switch (outcome.kind) {
          case 'redeemed':
            if (outcome.reacquired && !(await deps.isInForce(at))) return refused('voided', endedProblem('voided'));
            if (outcome.paidBy !== '' && outcome.journalId !== '') metrics.duplicatePayments.inc();
            return done('redeemed' as const, {
              reservation_id: at.id,
              status: 'redeemed' as const,
              order_id: outcome.orderId,
              ...(outcome.paidBy === '' ? {} : { already_paid_by: outcome.paidBy }),
              ...(outcome.reacquired ? { reacquired: true as const } : {}),
              ...(outcome.qty === null ? {} : { qty: outcome.qty }),
            });
          case 'ended':
            return refused(outcome.state, endedProblem(outcome.state));
          case 'not_found':
            return refused('unknown', notFound());
          default:
            return assertNever(outcome);
        }
      });
      return call.reply(200, data);
    }),
    defineRoute(releaseContract, async (call) => {
      const { req } = call;
      const { ticket, actor } = callerOfRelease(req, apiKeys, tickets);
      const json = await readJson(req);
      const body = ticket ? validate(holderReleaseBody, json) : validate(releaseBody, json);
      const data = await decideAll(body, await lookup.find(body, body.keep ? 'call' : 'release'), async (at) => {
        const bucket = bucketOfReservation(at.id);
        const isOther = ticket && ticket.reservation !== at.id;
        if (ticket && (ticket.campaignNo !== at.campaignNo || isOther)) return refused('unknown', foreign());
        const { reservations } = sales.of(at.product, bucket);
        const by = { actor, trace: req.trace };
        const user = ticket?.user ?? null;
        const outcome = await reservations.release(at.product, at.id, user, body.reason ?? '', by, body.keep);
        record(deps, req, 'release', at, outcome.kind);
        if (outcome.kind === 'released' || outcome.kind === 'kept' || outcome.kind === 'settled')
          await acknowledgements.held(at.product, outcome, bucket);
        switch (outcome.kind) {
          case 'released':
            if (body.keep)
              return refused(
                outcome.state,
                new Problem('reservation_released', `The reservation is ${outcome.state}.`),
              );
            return done(outcome.state, { reservation_id: at.id, released: true as const, status: outcome.state });
          case 'kept':
            return done('reserved', {
              reservation_id: at.id,
              released: false as const,
              status: 'reserved' as const,
              qty: outcome.qty,
              released_qty: outcome.released,
            });
          case 'settled':
            return refused(outcome.state, settledProblem(outcome.state));
          case 'foreign':
            return refused('unknown', foreign());
          case 'not_found':
            return refused('unknown', notFound());
          default:
            return assertNever(outcome);
        }
      });
      return call.reply(200, data);
    }),
    defineRoute(extendContract, async (call) => {
      const { req } = call;
      const actor = apiKeys.require(req, 'service');
      const body = validate(extendBody, await readJson(req));
      const data = await decideAll(body, await lookup.find(body, 'call'), async (at) => {
        const { extendSeconds, version } = deps.policies.of(at.product);
        const bucket = bucketOfReservation(at.id);
        const { reservations } = sales.of(at.product, bucket);
        const outcome = await reservations.extend(at.product, at.id, extendSeconds * 1000, { actor, trace: req.trace });
        record(deps, req, 'extend', at, outcome.kind);
        switch (outcome.kind) {
          case 'extended': {
            await acknowledgements.held(at.product, outcome, bucket);
            const pay_before = new Date(outcome.dueMs).toISOString();
            if (outcome.journalId === '') return refused('extended', alreadyExtended(at.id, pay_before));
            return done('extended', { reservation_id: at.id, status: 'extended' as const, pay_before });
          }
          case 'not_allowed':
            // An API that has just started may not know the campaign yet.
            if (version === 0) throw new EngineUnavailable('postgres', 'the terms of a campaign are not known');
            return refused('reserved', notExtended('The campaign is closed, or has no `extend_seconds`.'));
          case 'ended':
            return refused(outcome.state, new Problem('reservation_released', `The reservation is ${outcome.state}.`));
          case 'settled':
            return refused(outcome.state, settledProblem(outcome.state));
          case 'not_found':
            return refused('unknown', notFound());
          default:
            return assertNever(outcome);
        }
      });
      return call.reply(200, data);
    }),
    defineRoute(refundContract, async (call) => {
      const { req } = call;
      const actor = apiKeys.require(req, 'service');
      const body = validate(refundBody, await readJson(req));
      const data = await decideAll(body, await lookup.find(body, 'event'), async (at) => {
        const bucket = bucketOfReservation(at.id);
        const { reservations } = sales.of(at.product, bucket);
        const outcome = await reservations.refund(at.product, at.id, { actor, trace: req.trace }, body.keep);
        record(deps, req, 'refund', at, outcome.kind);
        if (outcome.kind === 'refunded' || outcome.kind === 'kept')
          await acknowledgements.held(at.product, outcome, bucket);
        switch (outcome.kind) {
          case 'kept':
            return done('redeemed', {
              reservation_id: at.id,
              status: 'redeemed' as const,
              returned_to_stock: outcome.refunded > 0 && outcome.burned === 0,
              qty: outcome.qty,
              refunded_qty: outcome.refunded,
            });
          case 'refunded':
            if (body.keep)
              return refused(
                'refunded',
                new Problem('reservation_refunded', 'The whole reservation has already been refunded.'),
              );
            return done('refunded', {
              reservation_id: at.id,
              status: 'refunded' as const,
              returned_to_stock: outcome.returned,
            });
          case 'unpaid':
            return refused(
              outcome.state,
              new Problem('reservation_not_redeemed', `The reservation is ${outcome.state}.`),
            );
          case 'not_found':
            return refused('unknown', notFound());
          default:
            return assertNever(outcome);
        }
      });
      return call.reply(200, data);
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
const notExtended = (detail: string) => new Problem('extension_not_allowed', detail);
const alreadyExtended = (reservation_id: string, pay_before: string) =>
  new Problem('already_extended', 'A reservation is extended once.', { members: { reservation_id, pay_before } });
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
