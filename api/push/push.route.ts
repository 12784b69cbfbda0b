import type { PushConfig } from '../../shared/config/push.js';
import { EngineUnavailable } from '../../shared/errors/faults.js';
import type { Log } from '../../shared/observability/log.js';
import type { PushSubscriptions } from '../../shared/postgres/push-subscriptions.js';
import type { CampaignDirectory } from '../../shared/sale/campaign-directory.js';
import type { SalesOf } from '../../shared/sale/sales.js';
import { pushEndpointProblem } from '../../shared/webhooks/push-endpoint.js';
import type { Tickets } from '../guards/auth/ticket.js';
import type { Quota } from '../guards/limits/quotas.js';
import { defineRoute } from '../http/define-route.js';
import { readJson } from '../http/json-body.js';
import type { Route } from '../http/route.js';
import { invalidFields, validate } from '../http/validate.js';
import { pushBody, subscribeContract, unsubscribeContract } from './push.contract.js';

export type PushRoutesDeps = {
  /** null = Web Push is not set up */
  config: PushConfig | null;
  subscriptions: PushSubscriptions;
  sales: SalesOf;
  directory: CampaignDirectory;
  tickets: Tickets;
  /** By place. */
  quota: Quota;
  log: Log;
  limits: { perPlace: number };
};

const OFF = 'Web Push is not set up.';

/** POST and DELETE /flash-sale/push. One call costs two of Redis and a row of Postgres. */
export function pushRoutes(deps: PushRoutesDeps): Route[] {
  const { config, subscriptions, sales, directory, tickets, quota, log, limits } = deps;
  return [
    defineRoute(subscribeContract, async (call) => {
      const { req } = call;
      const { campaignNo, user, reservation } = tickets.required(req);
      if (!config) throw call.refusal('push_not_available', OFF);
      const { endpoint, keys, language } = validate(pushBody, await readJson(req));
      const problem = pushEndpointProblem(endpoint, config);
      if (problem) throw invalidFields({ pointer: '#/endpoint', detail: problem });
      const rateLimit = await quota.take(reservation ?? `${campaignNo}|${user}`);
      const product = await directory.productOf(campaignNo);
      if (!product) throw call.refusal('campaign_not_found', 'The campaign of this ticket does not exist any more.');
      const { line } = sales.of(product, sales.bucketOf(product, user));
      const standing = reservation === null ? null : await line.standing(product, user, reservation);
      if (reservation === null || standing?.kind !== 'standing' || standing.status !== 'queued')
        throw call.refusal('not_waiting', 'The user of this ticket is not in the line.');
      const one = { reservation, user, endpoint, p256dh: keys.p256dh, auth: keys.auth, language };
      if (!(await subscriptions.save(one, campaignNo, limits.perPlace)))
        throw new EngineUnavailable('postgres', 'it was set back and lacks a campaign that Redis has');
      log.info({ request_id: req.requestId, campaign: product, reservation }, 'push subscribed');
      call.reply(200, { subscribed: true }, rateLimit);
    }),
    defineRoute(unsubscribeContract, async (call) => {
      const { campaignNo, user, reservation } = tickets.required(call.req);
      if (!config) throw call.refusal('push_not_available', OFF);
      const rateLimit = await quota.take(reservation ?? `${campaignNo}|${user}`);
      if (reservation) await subscriptions.removeOf(reservation);
      call.reply(200, { subscribed: false }, rateLimit);
    }),
  ];
}
