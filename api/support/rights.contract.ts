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
    'units that only Redis has yet (`complete`: false = it may have more, because more than 200 campaigns sell or the user has several). It is streamed; a response that ends early is not valid JSON. Audited without the user.',
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

export const eraseContract = {
  method: 'delete',
  operationId: 'eraseUser',
  path: '/admin/users/:user_id',
  summary: 'Erase a user',
  description:
    'Replaces the user id by a random pseudonym everywhere, and removes devices, networks, idempotency records and free texts. Units, ' +
    'limits and order ids stay. It cannot be undone. Bans of the user are lifted. A worker does it as soon as the user neither waits in a ' +
    'line nor has an unpaid reservation, and all campaigns of which the user has a unit are closed. A repeated call returns the same job. ' +
    'Audited without the user.',
  tag: 'admin',
  caller: 'admin',
  params,
  query: z.object({
    in_open_campaigns: z
      .enum(['true', 'false'])
      .default('false')
      .describe(
        'true: do not wait for campaigns that are open; the user could then claim there again under the same id',
      ),
  }),
  answers: {
    202: {
      description: 'The job was stored; `Location` is the URL of its progress.',
      data: z.object({ erasure_id: z.uuid().describe('as in the audit log') }),
      headers: ['Location'],
    },
  },
  errors: ['unauthorized', 'forbidden', 'invalid_request', 'temporarily_unavailable'],
} satisfies RouteContract;

export const erasureContract = {
  method: 'get',
  operationId: 'getErasure',
  path: '/admin/erasures/:id',
  summary: 'The progress of an erasure',
  tag: 'admin',
  caller: 'admin',
  params: z.object({ id: z.uuid() }),
  answers: {
    200: {
      description: 'The job.',
      data: z.object({
        erasure_id: z.uuid(),
        status: z.enum(['running', 'waiting', 'done']),
        waits_for: z
          .array(z.object({ product_id: z.string(), state: z.enum(['waiting', 'held', 'open']) }))
          .describe(
            'at most ten campaigns: `waiting`: the user is in their line; `held`: a reservation is unpaid or not stored yet; `open`: the ' +
              'campaign has a unit of the user and is not closed',
          ),
        rows: z
          .record(z.string(), z.int())
          .describe('table, or `event_stream` → entries that were changed or removed so far'),
      }),
    },
  },
  errors: ['unauthorized', 'forbidden', 'invalid_request', 'erasure_not_found', 'temporarily_unavailable'],
} satisfies RouteContract;
