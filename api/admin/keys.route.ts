import type { Request } from 'express';
import { z } from 'zod';
import type { Log } from '../../shared/observability/log.js';
import type { StoredKey } from '../../shared/postgres/api-keys.js';
import type { ApiKeys } from '../guards/auth/api-keys.js';
import { defineRoute } from '../http/define-route.js';
import { readJson } from '../http/json-body.js';
import type { Route } from '../http/route.js';
import { validate } from '../http/validate.js';
import { keyBody, keyData, keyQuery } from './key.contract.js';
import type { KeyDesk, Operator } from './keys.js';

const id = z.object({ id: z.uuid() });
const ERRORS = ['unauthorized', 'forbidden', 'invalid_request', 'temporarily_unavailable'] as const;
const admin = { tag: 'admin', caller: 'admin' } as const;

export type KeyRouteDeps = { desk: KeyDesk; apiKeys: ApiKeys; log: Log };

/** /admin/keys: create, list and revoke API keys. */
export function keyRoutes({ desk, apiKeys, log }: KeyRouteDeps): Route[] {
  const operatorOf = (req: Request): Operator => ({ name: apiKeys.require(req, 'admin'), requestId: req.requestId });
  const record = (operator: Operator, key: StoredKey, action: string) =>
    log.info({ request_id: operator.requestId, operator: operator.name, key: key.name }, action);

  return [
    defineRoute(
      {
        ...admin,
        operationId: 'createKey',
        method: 'post',
        path: '/admin/keys',
        summary: 'Create an API key',
        description:
          'Every process accepts it within about two seconds. Only a hash of the secret is stored. Keys of ADMIN_API_KEYS and ' +
          'SERVICE_API_KEYS are independent of these.',
        body: keyBody,
        bodyExample: { name: 'payments-2026', kind: 'service', expires_at: '2099-01-01T00:00:00Z' },
        answers: {
          201: {
            description: 'Created, with its secret, which is not shown again.',
            data: keyData,
            example: {
              ...{ id: '01a1fc6c-1111-7c3a-8f00-5a4c3b2a1900', name: 'payments-2026', kind: 'service', role: null },
              secret: 'dbk_mVwQ0sYF2n4o8u5Jk2n8QmVw1xY3zA7bCdEfGhIjKlM',
              ...{ created_at: '2026-11-20T09:00:00.000Z', created_by: 'anna', expires_at: '2099-01-01T00:00:00.000Z' },
              ...{ revoked_at: null, revoked_by: null, last_used_at: null },
            },
          },
        },
        errors: [...ERRORS, 'key_exists', 'key_limit', 'invalid_json', 'unsupported_media_type', 'body_too_large'],
      },
      async (call) => {
        const { req } = call;
        const operator = operatorOf(req);
        const { key, secret } = await desk.create(validate(keyBody, await readJson(req)), operator);
        record(operator, key, 'key.create');
        call.reply(201, { ...view(key), secret });
      },
    ),
    defineRoute(
      {
        ...admin,
        operationId: 'listKeys',
        method: 'get',
        path: '/admin/keys',
        summary: 'List API keys, newest first',
        description: 'Without secrets. Keys of the environment are not in the list.',
        query: keyQuery,
        answers: { 200: { description: 'The newest 1,000 keys.', data: z.array(keyData) } },
        errors: ERRORS,
      },
      async (call) => {
        const { req } = call;
        apiKeys.require(req, 'admin');
        const { all } = validate(keyQuery, req.query);
        call.reply(200, (await desk.list(all === 'true')).map(view));
      },
    ),
    defineRoute(
      {
        ...admin,
        operationId: 'revokeKey',
        method: 'delete',
        path: '/admin/keys/:id',
        summary: 'Revoke an API key',
        description:
          'Idempotent. Every process refuses it, and ends its sessions, within about two seconds; a process that does not ' +
          'reach Postgres does so afterwards.',
        params: id,
        answers: { 200: { description: 'The key is revoked.', data: keyData } },
        errors: [...ERRORS, 'key_not_found'],
      },
      async (call) => {
        const { req } = call;
        const operator = operatorOf(req);
        const key = await desk.revoke(validate(id, req.params).id, operator);
        record(operator, key, 'key.revoke');
        call.reply(200, view(key));
      },
    ),
  ];
}

function view({ id, name, role, createdAt, createdBy, ...key }: StoredKey): z.input<typeof keyData> {
  return {
    ...{ id, name, kind: role === null ? 'service' : 'admin', role },
    created_at: createdAt.toISOString(),
    created_by: createdBy,
    expires_at: key.expiresAt?.toISOString() ?? null,
    revoked_at: key.revokedAt?.toISOString() ?? null,
    revoked_by: key.revokedBy,
    last_used_at: key.lastUsedAt?.toISOString() ?? null,
  };
}
