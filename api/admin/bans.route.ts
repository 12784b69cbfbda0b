import type { Request } from 'express';
import { z } from 'zod';
import type { Log } from '../../shared/observability/log.js';
import type { StoredBan } from '../../shared/postgres/bans.js';
import { banView } from '../guards/abuse/bans.js';
import type { ApiKeys } from '../guards/auth/api-keys.js';
import { canonicalNetwork } from '../guards/caller/networks.js';
import { defineRoute } from '../http/define-route.js';
import { readJson } from '../http/json-body.js';
import type { Route } from '../http/route.js';
import { invalidFields, validate } from '../http/validate.js';
import { banBody, banData, banQuery } from './ban.contract.js';
import type { BanDesk, Operator } from './bans.js';

const id = z.object({ id: z.uuid() });
const READ_ERRORS = ['unauthorized', 'forbidden', 'invalid_request', 'temporarily_unavailable'] as const;

const admin = { tag: 'admin', caller: 'admin' } as const;

export type BanRouteDeps = { desk: BanDesk; apiKeys: ApiKeys; log: Log };

/** /admin/bans: create, list and lift bans and allowances. */
export function banRoutes({ desk, apiKeys, log }: BanRouteDeps): Route[] {
  const operatorOf = (req: Request): Operator => ({ name: apiKeys.require(req, 'admin'), requestId: req.requestId });
  const record = (operator: Operator, ban: StoredBan, action: string) =>
    log.info({ request_id: operator.requestId, operator: operator.name, ban: ban.id, kind: ban.kind }, action);

  return [
    defineRoute(
      {
        ...admin,
        operationId: 'createBan',
        method: 'post',
        path: '/admin/bans',
        summary: 'Ban a user, device or network, or exempt one from bans by rules',
        description:
          'Every process enforces it as soon as it receives the notification. A banned user, device or network gets 403 ' +
          '`blocked` with `until` for tokens, checkout and coupons. Existing reservations can still be read, paid and released.',
        body: banBody,
        bodyExample: { kind: 'network', subject: '203.0.113.0/24', reason: 'resellers', until: '2099-01-01T00:00:00Z' },
        answers: { 201: { description: 'The ban or allowance is in force.', data: banData } },
        errors: [...READ_ERRORS, 'invalid_json', 'unsupported_media_type', 'body_too_large'],
      },
      async (call) => {
        const { req } = call;
        const operator = operatorOf(req);
        const ban = await desk.create(validate(banBody, await readJson(req)), operator);
        record(operator, ban, 'ban.create');
        call.reply(201, view(ban));
      },
    ),
    defineRoute(
      {
        ...admin,
        operationId: 'listBans',
        method: 'get',
        path: '/admin/bans',
        summary: 'List bans and allowances, newest first',
        query: banQuery,
        answers: {
          200: {
            description: 'A page; `Link` contains the next one.',
            data: z.array(banData),
            optionalHeaders: ['Link'],
          },
        },
        errors: READ_ERRORS,
      },
      async (call) => {
        const { req } = call;
        apiKeys.require(req, 'admin');
        const { effect, kind, subject, all, limit, cursor } = validate(banQuery, req.query);
        const known = kind === 'network' && subject !== undefined ? canonicalNetwork(subject) : subject;
        if (known === null) throw call.refusal(invalidFields(NO_NETWORK));
        const filter = {
          effect: effect ?? null,
          kind: kind ?? null,
          subject: known ?? null,
          inForceOnly: all === 'false',
        };
        const page = await desk.list(filter, limit, cursor ?? null);
        const last = page.length === limit ? page.at(-1) : undefined;
        const query = new URLSearchParams({
          ...(req.query as Record<string, string>),
          ...(last ? { cursor: last.id } : {}),
        });
        call.reply(200, page.map(view), last ? ['Link', `</admin/bans?${query}>; rel="next"`] : []);
      },
    ),
    defineRoute(
      {
        ...admin,
        operationId: 'deleteBan',
        method: 'delete',
        path: '/admin/bans/:id',
        summary: 'Lift a ban or an allowance',
        description: 'Idempotent. The entry is kept, with the operator who lifted it.',
        params: id,
        answers: { 200: { description: 'The ban or allowance is lifted.', data: banData } },
        errors: [...READ_ERRORS, 'ban_not_found'],
      },
      async (call) => {
        const { req } = call;
        const operator = operatorOf(req);
        const ban = await desk.lift(validate(id, req.params).id, operator);
        record(operator, ban, 'ban.lift');
        call.reply(200, view(ban));
      },
    ),
  ];
}

const NO_NETWORK = { pointer: '#/subject', detail: 'must be an IPv4 or IPv6 address or range' };

function view(ban: StoredBan): z.input<typeof banData> {
  return {
    ...banView(ban),
    created_at: ban.createdAt.toISOString(),
    lifted_at: ban.liftedAt?.toISOString() ?? null,
    lifted_by: ban.liftedBy,
  };
}
