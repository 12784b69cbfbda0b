import { z } from 'zod';
import { RECORD_STATES } from '../../shared/sale/reservation-record.js';
import { externalId } from '../http/fields.js';
import type { RouteContract } from '../http/route.js';

const params = z.object({ user_id: externalId });

const rows = (of: string) => z.array(z.looseObject({})).describe(of);

/** What is exported. Rows have the columns of their tables, which may get further ones. */
export const userExport = z
  .object({
    user_id: z.string(),
    exported_at: z.iso.datetime(),
    live: z
      .object({
        complete: z
          .boolean()
          .describe(
            'false: there may be more, because more than 200 campaigns sell or the user has several reservations',
          ),
        reservations: z.array(
          z
            .object({
              reservation_id: z.uuid(),
              product_id: z.string(),
              state: z.enum(RECORD_STATES),
              qty: z.int(),
              order_id: z.string(),
              pay_before: z.iso.datetime().nullable(),
            })
            .meta({ id: 'ExportedReservation' }),
        ),
        places: z.array(z.object({ product_id: z.string(), position: z.int() }).meta({ id: 'ExportedPlace' })),
      })
      .describe('places and reservations that only Redis has yet'),
    redemptions: rows('reservations in every status'),
    waiting_tickets: rows('places in lines'),
    idempotency_records: rows('stored first responses'),
    push_subscriptions: rows('browsers that are notified; of the URL only the host'),
    attempts: rows('attempts with codes'),
    codes: rows('codes that were made for the user'),
    bans: rows('bans of the user'),
    actions: rows('what operators did about the user'),
    changes: rows('changes of the reservations'),
    payment_events: rows('messages of payment providers'),
    further_payments: rows('payments for reservations that were paid already'),
    events: rows('events of the reservations that are still in the outbox'),
  })
  .meta({ id: 'UserExport' });

const exportExample: z.input<typeof userExport> = {
  user_id: 'user-4711',
  exported_at: '2026-11-27T20:10:00.000Z',
  live: { complete: true, reservations: [], places: [{ product_id: 'flash-soap-2026', position: 17 }] },
  redemptions: [
    {
      redemption_id: '01a1fc6d-483b-7a4a-9e25-913b00000001',
      campaign_id: '01a1fc6c-1111-7c3a-8f00-5a4c3b2a1900',
      product_id: 'flash-indomie-2026',
      user_id: 'user-4711',
      order_id: 'ord_01a1fc6d483b7a4a9e25913b00000001',
      qty: 1,
      status: 'redeemed',
      reserved_at: '2026-11-27T20:00:00.417+00:00',
      pay_before: '2026-11-27T20:05:00.417+00:00',
      redeemed_at: '2026-11-27T20:01:12.083+00:00',
      payment_ref: 'pi_3Pq7cR2eZvKYlo2C1aJ9bT4x',
    },
  ],
  waiting_tickets: [],
  idempotency_records: [],
  push_subscriptions: [],
  attempts: [],
  codes: [],
  bans: [],
  actions: [],
  changes: [
    {
      reservation_id: '01a1fc6d-483b-7a4a-9e25-913b00000001',
      at: '2026-11-27T20:01:12.083+00:00',
      kind: 'redeemed',
      actor: 'shop-payments',
      reason: null,
      detail: null,
    },
  ],
  payment_events: [],
  further_payments: [],
  events: [],
};

export const exportContract = {
  method: 'get',
  operationId: 'exportUser',
  path: '/admin/users/:user_id/export',
  summary: 'Export everything that is stored about a user',
  description:
    'A JSON object without `data` around it, with a list for each table that has rows of the user. It is streamed; a response that ends ' +
    'early is not valid JSON. Audited without the user.',
  tag: 'admin',
  caller: 'admin',
  params,
  answers: {
    200: {
      description: 'The export; empty lists if nothing is stored.',
      file: userExport,
      example: exportExample,
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
