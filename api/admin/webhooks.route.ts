import type { Request } from 'express';
import { z } from 'zod';
import { LIMITS } from '../../shared/config/limits.js';
import { TEST_EVENT_TYPE } from '../../shared/contracts/events.js';
import type { PostResult } from '../../shared/contracts/post-result.js';
import type { Log } from '../../shared/observability/log.js';
import type { WebhookAttempt } from '../../shared/postgres/webhook-attempts.js';
import type { ApiKeys } from '../guards/auth/api-keys.js';
import type { LocalQuota } from '../guards/limits/local-quota.js';
import { rateLimited } from '../guards/limits/quotas.js';
import { defineRoute } from '../http/define-route.js';
import { readJson, requireNoFields } from '../http/json-body.js';
import type { Route } from '../http/route.js';
import { validate } from '../http/validate.js';
import {
  attemptData,
  attemptsQuery,
  createdExample,
  replayBody,
  replayData,
  testData,
  webhookBody,
  webhookChangeBody,
  webhookData,
} from './webhook.contract.js';
import type { EndpointState, Operator, Webhooks } from './webhooks.js';

const id = z.object({ id: z.uuid() });
const READ_ERRORS = ['unauthorized', 'forbidden', 'invalid_request', 'temporarily_unavailable'] as const;
const ONE_ERRORS = [...READ_ERRORS, 'webhook_not_found'] as const;
const BODY_ERRORS = ['invalid_json', 'unsupported_media_type', 'body_too_large'] as const;

const admin = { tag: 'admin', caller: 'admin' } as const;

export type WebhookRouteDeps = {
  webhooks: Webhooks;
  apiKeys: ApiKeys;
  /** Counts test events of this process. */
  tests: LocalQuota;
  onLimited: (policy: string) => void;
  log: Log;
};

/** /admin/webhooks: create, list, read, change, remove and test endpoints, replay events, and read attempts. */
export function webhookRoutes(deps: WebhookRouteDeps): Route[] {
  const { webhooks, apiKeys, log } = deps;
  const operatorOf = (req: Request): Operator => ({ name: apiKeys.require(req, 'admin'), requestId: req.requestId });
  const idOf = (req: Request): string => validate(id, req.params).id;
  const record = (operator: Operator, endpoint: string, action: string) =>
    log.info({ request_id: operator.requestId, operator: operator.name, endpoint }, action);

  return [
    defineRoute(
      {
        ...admin,
        operationId: 'createWebhook',
        method: 'post',
        path: '/admin/webhooks',
        summary: 'Create a webhook endpoint: events are sent to a URL, signed by Standard Webhooks',
        description:
          'The endpoint receives all future events, each at least once, in order per reservation. See docs/events.md.',
        body: webhookBody,
        bodyExample: {
          url: 'https://shop.example/hooks/doorbuster',
          types: ['dev.doorbuster.redemption.redeemed.v1', 'dev.doorbuster.redemption.expired.v1'],
        },
        answers: {
          201: {
            description: 'Created, with its secrets, which are not shown again.',
            data: webhookData,
            example: createdExample,
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
        operationId: 'listWebhooks',
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
        operationId: 'getWebhook',
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
        operationId: 'updateWebhook',
        method: 'patch',
        path: '/admin/webhooks/:id',
        summary: 'Change a webhook endpoint',
        description:
          'After any change, the delivery is retried at once. To rotate a secret, send both, and later only the new one.',
        params: id,
        body: webhookChangeBody,
        bodyExample: { enabled: true },
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
        operationId: 'deleteWebhook',
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
        operationId: 'replayEvents',
        method: 'post',
        path: '/admin/webhooks/:id/replay',
        summary: 'Replay events: one by its id, or those of a period of time',
        description:
          'Replayed events are delivered before new ones. Events that are not delivered yet keep their turn.',
        params: id,
        body: replayBody,
        bodyExample: { from: '2026-11-27T20:00:00Z', to: '2026-11-27T21:00:00Z' },
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
    ...diagnosisRoutes(deps, idOf),
  ];
}

/** What a developer of an endpoint needs: a test event, and the last attempts. */
function diagnosisRoutes(
  { webhooks, apiKeys, tests, onLimited, log }: WebhookRouteDeps,
  idOf: (req: Request) => string,
): Route[] {
  return [
    defineRoute(
      {
        ...admin,
        operationId: 'testWebhook',
        method: 'post',
        path: '/admin/webhooks/:id/test',
        summary: 'Send a test event to a webhook endpoint now',
        description:
          `Sends an event of type \`${TEST_EVENT_TYPE}\`, signed as any other, and returns how the endpoint responded. ` +
          'The other deliveries and their order are not concerned.',
        params: id,
        answers: { 200: { description: 'The event was sent; `delivered` is the result.', data: testData } },
        errors: [...ONE_ERRORS, ...BODY_ERRORS, 'rate_limited'],
      },
      async (call) => {
        const { req } = call;
        const operator = apiKeys.require(req, 'admin');
        await requireNoFields(req);
        const endpoint = idOf(req);
        const waitMs = tests.take('');
        if (waitMs > 0) {
          onLimited('webhook_test');
          throw rateLimited('webhook_test', tests.limit, tests.windowMs / 1000, waitMs);
        }
        const { event, result } = await webhooks.test(endpoint);
        log.info({ request_id: req.requestId, operator, endpoint, status: result.status }, 'webhook.test');
        call.reply(200, { event_id: event.id, type: TEST_EVENT_TYPE, ...resultView(result) });
      },
    ),
    defineRoute(
      {
        ...admin,
        operationId: 'listWebhookAttempts',
        method: 'get',
        path: '/admin/webhooks/:id/attempts',
        summary: 'List attempts to deliver events to a webhook endpoint, newest first',
        description: `The last ${LIMITS.webhooks.attemptsKept} delivered and the last ${LIMITS.webhooks.attemptsKept} failed attempts are kept.`,
        params: id,
        query: attemptsQuery,
        answers: {
          200: {
            description: 'A page; `Link` with rel="next" if there is another one.',
            data: z.array(attemptData),
            optionalHeaders: ['Link'],
          },
        },
        errors: ONE_ERRORS,
      },
      async (call) => {
        const { req } = call;
        apiKeys.require(req, 'admin');
        const endpoint = idOf(req);
        const { limit, cursor, delivered } = validate(attemptsQuery, req.query);
        const wanted = {
          delivered: delivered === undefined ? null : delivered === 'true',
          before: cursor ?? null,
          limit,
        };
        const page = await webhooks.attempts(endpoint, wanted);
        const last = page.length === limit ? page.at(-1) : undefined;
        const filter = delivered === undefined ? '' : `&delivered=${delivered}`;
        const next = `/admin/webhooks/${endpoint}/attempts?limit=${limit}&cursor=${last?.no}${filter}`;
        call.reply(200, page.map(attemptView), last ? ['Link', `<${next}>; rel="next"`] : []);
      },
    ),
  ];
}

function resultView({ delivered, status, error, durationMs }: PostResult) {
  return { delivered, status, error, duration_ms: Math.round(durationMs) };
}

function attemptView(attempt: WebhookAttempt): z.input<typeof attemptData> {
  const { eventId, type, subject, attemptedAt } = attempt;
  return { event_id: eventId, type, subject, attempted_at: attemptedAt.toISOString(), ...resultView(attempt) };
}

function view(endpoint: EndpointState): z.input<typeof webhookData> {
  return {
    id: endpoint.id,
    url: endpoint.url,
    types: endpoint.types,
    campaigns: endpoint.campaignIds,
    secret_count: endpoint.secrets.length,
    enabled: endpoint.enabled,
    disabled_reason: endpoint.disabledReason,
    created_at: endpoint.createdAt.toISOString(),
    deliveries: {
      backlog: endpoint.backlog.events,
      parked: endpoint.backlog.parked,
      replays: endpoint.backlog.replays,
      last_delivered_at: endpoint.lastDeliveredAt?.toISOString() ?? null,
      failed_attempts: endpoint.attempts,
      failing_since: endpoint.failingSince?.toISOString() ?? null,
      next_attempt_at: endpoint.nextAttemptAt?.toISOString() ?? null,
      last_error: endpoint.lastError ?? endpoint.backlog.parkedError,
    },
  };
}
