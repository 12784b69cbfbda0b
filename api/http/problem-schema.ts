import { z } from 'zod';
import { ROLES } from '../../shared/domain/role.js';
import { ERRORS, type ErrorCode } from '../../shared/errors/catalogue.js';

export const PROBLEM_TYPE = 'application/problem+json';

/** The problem document (RFC 9457) with its extensions, as the OpenAPI document describes it. */
export const problemSchema = z
  .object({
    type: z.url().describe('https://doorbuster.dev/errors/<code>'),
    title: z.string().describe('the same for every occurrence of the code'),
    status: z.int().describe('the HTTP status'),
    detail: z.string().describe('one sentence about this occurrence'),
    instance: z.string().describe('identifies the request in the log'),
    code: z.string().describe('the reason, for programs; a client must accept codes that it does not know'),
    errors: z
      .array(z.object({ pointer: z.string().describe('JSON pointer, as a fragment'), detail: z.string() }))
      .optional()
      .describe('of 400: the invalid fields'),
    starts_at: z.iso.datetime().nullable().optional().describe('of `campaign_not_started`'),
    until: z.iso.datetime().nullable().optional().describe('of `blocked`: null = until an operator lifts the ban'),
    required_role: z.enum(ROLES).optional().describe('of `forbidden`: the role that the call needs'),
    role: z.enum(['read', 'write']).optional().describe('of `wrong_role`: the role that serves the request'),
    challenge: z.record(z.string(), z.unknown()).optional().describe('of `challenge_required`: docs/challenges.md'),
    policy: z.string().optional().describe('of `rate_limited`: the quota that is exceeded'),
    free: z.int().nullable().optional().describe('of `stock_insufficient`: free units'),
    reservation_id: z.uuid().optional().describe('of `already_extended`'),
    pay_before: z.iso.datetime().optional().describe('of `already_extended`: the deadline'),
    reservations: z
      .array(z.looseObject({ reservation_id: z.uuid() }))
      .optional()
      .describe('of `order_ambiguous` and `order_partly_decided`: the reservations of the order'),
    original_status: z.int().optional().describe('of `duplicate_request`: the status of the first response'),
    data: z.unknown().optional().describe('of `duplicate_request`: the data of the first response'),
  })
  .meta({ id: 'Problem', description: 'Why a request was refused, by RFC 9457.' });

/** Extensions of problem documents by code, for the examples. */
const MEMBERS: { readonly [Code in ErrorCode]?: Record<string, unknown> } = {
  invalid_request: { errors: [{ pointer: '#/qty', detail: 'must be at least 1' }] },
  unknown_field: {
    errors: [{ pointer: '#/total_limt', detail: 'Unknown field `total_limt`. Did you mean `total_limit`?' }],
  },
  campaign_not_started: { starts_at: '2026-11-27T20:00:00.000Z' },
  blocked: { until: '2026-11-27T20:15:00.000Z' },
  challenge_required: {
    challenge: { algorithm: 'SHA-256', cost: 1, nonce: '4f1c5b7d9e2a4c60b1d3f5a7c9e0b2d4', expiresAt: 1_795_809_900 },
  },
  wrong_role: { role: 'write' },
  rate_limited: { policy: 'device' },
  stock_insufficient: { free: 3 },
  already_extended: {
    reservation_id: '01a1fc6d-483b-7a4a-9e25-913b00000001',
    pay_before: '2026-11-27T20:15:00.000Z',
  },
  order_ambiguous: {
    reservations: [
      { reservation_id: '01a1fc6d-483b-7a4a-9e25-913b00000001', product_id: 'sale-1', user_id: 'ann' },
      { reservation_id: '01a1fc6d-483b-7a4a-9e25-913b00000003', product_id: 'sale-1', user_id: 'ben' },
    ],
  },
  order_partly_decided: {
    reservations: [
      { reservation_id: '01a1fc6d-483b-7a4a-9e25-913b00000001', status: 'redeemed' },
      { reservation_id: '01a1fc6d-483b-7a4a-9e25-913b00000003', status: 'expired' },
    ],
  },
  duplicate_request: {
    original_status: 200,
    data: { status: 'completed', order_id: 'ord_01a1fc6d483b7a4a9e25913b00000001' },
  },
};

const REQUEST_ID = '01a1fc6d-483b-7a4a-9e25-913b00000002';

/** Returns a problem document of a code, as an example. */
export function problemExample(code: ErrorCode): Record<string, unknown> {
  const { status, title } = ERRORS[code];
  return {
    type: `https://doorbuster.dev/errors/${code}`,
    title,
    status,
    detail: `${title}.`,
    instance: `urn:doorbuster:request:${REQUEST_ID}`,
    code,
    ...MEMBERS[code],
  };
}
