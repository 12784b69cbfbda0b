import { z } from 'zod';
import { externalId } from '../http/fields.js';
import type { RouteContract } from '../http/route.js';

const params = z.object({ user_id: externalId });

export const exportContract = {
  method: 'get',
  operationId: 'exportUser',
  path: '/admin/users/:user_id/export',
  summary: 'Export everything that is stored about a user',
  description:
    'A JSON object: `user_id`, `exported_at`, a list for each table with rows of the user (`redemptions`, `waiting_tickets`, `push_subscriptions`, ' +
    '`attempts`, `codes`, `bans`, `actions`, `payment_events`, `further_payments`, `events`, `idempotency_records`), and `live`: places and ' +
    'units that only Redis has yet. It is streamed; a response that ends early is not valid JSON. Audited without the user.',
  tag: 'admin',
  caller: 'admin',
  params,
  answers: {
    200: {
      description: 'The export; empty lists if nothing is stored.',
      contentTypes: ['application/json'],
      headers: ['Content-Disposition'],
    },
  },
  errors: ['unauthorized', 'forbidden', 'invalid_request', 'rate_limited', 'temporarily_unavailable'],
} satisfies RouteContract;

const rows = z
  .record(z.string(), z.int())
  .describe('table, or `event_stream` → entries that were changed or removed so far');
const erasureId = z.uuid().describe('as in the audit log');

export const eraseContract = {
  method: 'post',
  operationId: 'eraseUser',
  path: '/admin/users/:user_id/erase',
  summary: 'Erase a user',
  description:
    'Replaces the user id by a random pseudonym everywhere, and removes devices, networks, idempotency records and free texts. Units, ' +
    'limits and order ids stay. A user who waits or has an unpaid reservation is refused. The call works for at most ten seconds; repeat it ' +
    'until `status` is `done`, also after a failure. It cannot be undone. Bans of the user are lifted. Audited without the user.',
  tag: 'admin',
  caller: 'admin',
  params,
  body: z.strictObject({ user_id: externalId.describe('the same as in the path, as a confirmation') }),
  answers: {
    200: {
      description: 'Nothing is stored under this user id any more.',
      data: z.object({ erasure_id: erasureId, status: z.literal('done'), rows }),
    },
    202: {
      description: 'Not finished yet; repeat the call.',
      data: z.object({ erasure_id: erasureId, status: z.literal('running'), rows }),
      headers: ['Retry-After'],
    },
  },
  errors: [
    'unauthorized',
    'forbidden',
    'invalid_request',
    'invalid_json',
    'unsupported_media_type',
    'body_too_large',
    'user_active',
    'rate_limited',
    'temporarily_unavailable',
  ],
} satisfies RouteContract;
