import type { Request } from 'express';
import { z } from 'zod';
import type { Log } from '../../shared/observability/log.js';
import type { ApiKeys } from '../guards/auth/api-keys.js';
import { defineRoute } from '../http/define-route.js';
import { readJson } from '../http/json-body.js';
import type { Route } from '../http/route.js';
import { validate } from '../http/validate.js';
import { replayBody, replayData, webhookBody, webhookChangeBody, webhookData } from './webhook.contract.js';
import type { EndpointState, Operator, Webhooks } from './webhooks.js';

const id = z.object({ id: z.uuid() });
const READ_ERRORS = ['unauthorized', 'forbidden', 'invalid_request', 'temporarily_unavailable'] as const;
const ONE_ERRORS = [...READ_ERRORS, 'webhook_not_found'] as const;
const BODY_ERRORS = ['invalid_json', 'unsupported_media_type', 'body_too_large'] as const;

const admin = { tag: 'admin', caller: 'admin' } as const;

export type WebhookRouteDeps = { webhooks: Webhooks; apiKeys: ApiKeys; log: Log };

/** /admin/webhooks: create, list, read, change and remove endpoints, and replay events. */
export function webhookRoutes({ webhooks, apiKeys, log }: WebhookRouteDeps): Route[] {
  const operatorOf = (req: Request): Operator => ({ name: apiKeys.require(req, 'admin'), requestId: req.requestId });
  const idOf = (req: Request): string => validate(id, req.params).id;
  const record = (operator: Operator, endpoint: string, action: string) =>
    log.info({ request_id: operator.requestId, operator: operator.name, endpoint }, action);

  return [
    defineRoute(
      {
        ...admin,
        method: 'post',
        path: '/admin/webhooks',
        summary: 'Create a webhook endpoint: events are sent to a URL, signed by Standard Webhooks',
        description: 'The endpoint receives all future events in order, each at least once. See docs/events.md.',
        body: webhookBody,
        answers: {
          201: {
            description: 'Created, with its secrets, which are not shown again.',
            data: webhookData,
            headers: ['Location'],
          },
        },
        errors: [...READ_ERRORS, ...BODY_ERRORS, 'webhook_limit'],
      },
      async (call) => {
        const { req } = call;
        const operator = operatorOf(req);
        const endpoint = await webhooks.create(validate(webhookBody, await readJson(req)), operator);
        record(operator, endpoint.id, 'webhook.create');
        const data = { ...view(endpoint), secrets: endpoint.secrets };
        call.reply(201, data, ['Location', `/admin/webhooks/${endpoint.id}`]);
      },
    ),
    defineRoute(
      {
        ...admin,
        method: 'get',
        path: '/admin/webhooks',
        summary: 'List webhook endpoints with the state of their deliveries',
        answers: { 200: { description: 'All endpoints, oldest first.', data: z.array(webhookData) } },
        errors: READ_ERRORS,
      },
      async (call) => {
        const { req } = call;
        apiKeys.require(req, 'admin');
        call.reply(200, (await webhooks.list()).map(view));
      },
    ),
    defineRoute(
      {
        ...admin,
        method: 'get',
        path: '/admin/webhooks/:id',
        summary: 'Read a webhook endpoint with the state of its deliveries',
        params: id,
        answers: { 200: { description: 'The endpoint.', data: webhookData } },
        errors: ONE_ERRORS,
      },
      async (call) => {
        const { req } = call;
        apiKeys.require(req, 'admin');
        call.reply(200, view(await webhooks.read(idOf(req))));
      },
    ),
    defineRoute(
      {
        ...admin,
        method: 'patch',
        path: '/admin/webhooks/:id',
        summary: 'Change a webhook endpoint',
        description:
          'After any change, the delivery is retried at once. To rotate a secret, send both, and later only the new one.',
        params: id,
        body: webhookChangeBody,
        answers: { 200: { description: 'The endpoint after the change.', data: webhookData } },
        errors: [...ONE_ERRORS, ...BODY_ERRORS],
      },
      async (call) => {
        const { req } = call;
        const operator = operatorOf(req);
        const body = validate(webhookChangeBody, await readJson(req));
        const endpoint = await webhooks.change(idOf(req), body, operator);
        record(operator, endpoint.id, 'webhook.change');
        call.reply(200, view(endpoint));
      },
    ),
    defineRoute(
      {
        ...admin,
        method: 'delete',
        path: '/admin/webhooks/:id',
        summary: 'Remove a webhook endpoint',
        params: id,
        answers: {
          200: {
            description: 'The endpoint is removed and receives no more events.',
            data: z.object({ id: z.uuid() }),
          },
        },
        errors: ONE_ERRORS,
      },
      async (call) => {
        const { req } = call;
        const operator = operatorOf(req);
        const endpoint = idOf(req);
        await webhooks.remove(endpoint, operator);
        record(operator, endpoint, 'webhook.remove');
        call.reply(200, { id: endpoint });
      },
    ),
    defineRoute(
      {
        ...admin,
        method: 'post',
        path: '/admin/webhooks/:id/replay',
        summary: 'Replay events: one by its id, or those of a period of time',
        description:
          'Replayed events are delivered before new ones. Events that are not delivered yet keep their turn.',
        params: id,
        body: replayBody,
        answers: { 202: { description: 'The events will be delivered again.', data: replayData } },
        errors: [...ONE_ERRORS, ...BODY_ERRORS, 'event_not_found', 'webhook_disabled'],
      },
      async (call) => {
        const { req } = call;
        const operator = operatorOf(req);
        const endpoint = idOf(req);
        const events = await webhooks.replay(endpoint, validate(replayBody, await readJson(req)), operator);
        record(operator, endpoint, 'webhook.replay');
        call.reply(202, { events });
      },
    ),
  ];
}

function view(endpoint: EndpointState): z.input<typeof webhookData> {
  return {
    id: endpoint.id,
    url: endpoint.url,
    types: endpoint.types,
    secret_count: endpoint.secrets.length,
    enabled: endpoint.enabled,
    disabled_reason: endpoint.disabledReason,
    created_at: endpoint.createdAt.toISOString(),
    deliveries: {
      backlog: endpoint.backlog.events,
      replays: endpoint.backlog.replays,
      last_delivered_at: endpoint.lastDeliveredAt?.toISOString() ?? null,
      failed_attempts: endpoint.attempts,
      failing_since: endpoint.failingSince?.toISOString() ?? null,
      next_attempt_at: endpoint.nextAttemptAt?.toISOString() ?? null,
      last_error: endpoint.lastError,
    },
  };
}
