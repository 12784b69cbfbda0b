import type { Request } from 'express';
import type { UserId } from '../../shared/domain/ids.js';
import type { Log } from '../../shared/observability/log.js';
import type { ApiKeys } from '../guards/auth/api-keys.js';
import { defineRoute } from '../http/define-route.js';
import { readJson } from '../http/json-body.js';
import type { Route } from '../http/route.js';
import { validate } from '../http/validate.js';
import { readPerson } from './person.js';
import type { PersonHistory } from './person-history.js';
import type { RedemptionFinder } from './redemption-finder.js';
import {
  actionBody,
  partBody,
  personContract,
  refundAction,
  releaseAction,
  removalBody,
  removeAction,
  resendAction,
  searchContract,
} from './support.contract.js';
import type { SupportActions, SupportOperator } from './support-actions.js';

export type SupportRouteDeps = {
  finder: RedemptionFinder;
  history: PersonHistory;
  actions: SupportActions;
  apiKeys: ApiKeys;
  log: Log;
};

/** Calls of operators who help a user: search, the page of a user, and actions for them. */
export function supportRoutes({ finder, history, actions, apiKeys, log }: SupportRouteDeps): Route[] {
  const operatorOf = (req: Request): SupportOperator => ({
    name: apiKeys.require(req, 'admin'),
    requestId: req.requestId,
    trace: req.trace,
  });
  const record = (req: Request, { name }: SupportOperator, action: string, subject: string) =>
    log.info({ request_id: req.requestId, operator: name, subject }, action);

  return [
    defineRoute(searchContract, async (call) => {
      apiKeys.require(call.req, 'admin');
      const { rows, places, complete, next } = await finder.find(validate(searchContract.query, call.req.query));
      call.reply(200, rows, [], { places, complete, next_cursor: next });
    }),
    defineRoute(personContract, async (call) => {
      apiKeys.require(call.req, 'admin');
      const { user_id } = validate(personContract.params, call.req.params);
      call.reply(200, await readPerson(finder, history, user_id));
    }),
    defineRoute(releaseAction, async (call) => {
      const { req } = call;
      const operator = operatorOf(req);
      const { reason, keep } = validate(partBody, await readJson(req));
      const { id } = validate(releaseAction.params, req.params);
      const { id: reservation_id, ...released } = await actions.release(id, reason ?? '', operator, keep);
      record(req, operator, 'reservation.release', reservation_id);
      call.reply(200, { reservation_id, ...released });
    }),
    defineRoute(refundAction, async (call) => {
      const { req } = call;
      const operator = operatorOf(req);
      const { reason, keep } = validate(partBody, await readJson(req));
      const { id } = validate(refundAction.params, req.params);
      const { id: reservation_id, ...refunded } = await actions.refund(id, reason ?? '', operator, keep);
      record(req, operator, 'reservation.refund', reservation_id);
      call.reply(200, { reservation_id, ...refunded });
    }),
    defineRoute(resendAction, async (call) => {
      const { req } = call;
      const operator = operatorOf(req);
      const { reason } = validate(actionBody, await readJson(req));
      const { id, events, endpoints } = await actions.resend(
        validate(resendAction.params, req.params).id,
        reason ?? '',
        operator,
      );
      record(req, operator, 'reservation.resend', id);
      call.reply(200, { reservation_id: id, events, endpoints });
    }),
    defineRoute(removeAction, async (call) => {
      const { req } = call;
      const operator = operatorOf(req);
      const { user_id, reason } = validate(removalBody, await readJson(req));
      const { id } = validate(removeAction.params, req.params);
      await actions.removeFromLine(id, user_id as UserId, reason ?? '', operator);
      // Without the user: an erasure cannot reach logs.
      record(req, operator, 'line.remove', id);
      call.reply(200, { status: 'left' });
    }),
  ];
}
