import { expect, test } from '@jest/globals';
import type { Request } from 'express';
import type { Log } from '../../shared/observability/log.js';
import type { RegionAcknowledgement } from '../../shared/postgres/region-acknowledgements.js';
import { until } from '../../test/harness/until.js';
import type { Tickets } from '../guards/auth/ticket.js';
import { Acknowledged, type AcknowledgedDeps, decisionIn } from './acknowledged.js';

const ID = '01a1fc6d-483b-7a4a-9e25-913b00000001';
const PLACE = '01a1fc6d-483b-7a4a-9e25-913b00000002';
const tickets = {
  verify: (text: string) => (text === 'a-ticket' ? { reservation: PLACE } : null),
} as unknown as Tickets;
const request = (more: object = {}) => ({ headers: {}, ...more }) as Request;
const data = (fields: object) => ({ status: 200, text: JSON.stringify({ data: { reservation_id: ID, ...fields } }) });
const refusal = (fields: object) => ({ status: 409, text: JSON.stringify(fields) });
const first = { code: 'duplicate_request', original_status: 201, data: { reservation_id: ID, status: 'redeemed' } };

test.each([
  [
    'redeem',
    data({ status: 'redeemed', code: 'SECRET' }),
    { reservation: ID, status: 'redeemed', qty: null, payment: null },
  ],
  ['redeem', refusal(first), { reservation: ID, status: 'redeemed', qty: null, payment: null }],
  [
    'checkout',
    data({ status: 'completed', pay_before: null }),
    { reservation: ID, status: 'redeemed', qty: null, payment: null },
  ],
  [
    'checkout',
    data({ status: 'completed', pay_before: 'x' }),
    { reservation: ID, status: 'reserved', qty: null, payment: null },
  ],
  [
    'checkout',
    data({ status: 'queued', ticket: 'a-ticket' }),
    { reservation: PLACE, status: 'queued', qty: null, payment: null },
  ],
  ['checkout', data({ status: 'queued' }), null],
  ['confirm', data({ status: 'redeemed' }), { reservation: ID, status: 'redeemed', qty: null, payment: null }],
  [
    'confirm',
    data({ status: 'redeemed', already_paid_by: 'p' }),
    { reservation: ID, status: 'paid_again', qty: null, payment: null },
  ],
  [
    'release',
    data({ released: false, status: 'reserved', qty: 2, payment: null }),
    { reservation: ID, status: 'reserved', qty: 2, payment: null },
  ],
  ['refund', data({ status: 'refunded' }), { reservation: ID, status: 'refunded', qty: null, payment: null }],
  ['redeem', refusal({ code: 'already_redeemed' }), null],
  ['redeem', { status: 503, text: 'busy' }, null],
] as const)('what %s returned is recorded', (operation, response, expected) => {
  expect(decisionIn(operation, request(), response, tickets)).toEqual(expected);
});

test('an extension whose first response was lost, and a place that was left, are recorded', () => {
  const extended = decisionIn(
    'extend',
    request({ bodyRead: { value: { reservation_id: ID } } }),
    refusal({ code: 'already_extended' }),
    tickets,
  );
  expect(extended).toEqual({ reservation: ID, status: 'extended', qty: null, payment: null });
  const left = decisionIn(
    'leave',
    request({ headers: { 'x-ticket': 'a-ticket' } }),
    { status: 200, text: '{"data":{"status":"left"}}' },
    tickets,
  );
  expect(left).toEqual({ reservation: PLACE, status: 'left', qty: null, payment: null });
});

/** A recorder whose Postgres is away until `isAway` is false. */
function recorder(capacity: number) {
  const dropped: string[] = [];
  const written: RegionAcknowledgement[] = [];
  const state = { isAway: true };
  const acknowledged = new Acknowledged({
    table: {
      insert: async (rows) => {
        if (state.isAway) throw new Error('away');
        written.push(...rows.map((row) => ({ ...row })));
      },
    },
    directory: { productOf: (region, no) => `${region}-${no}` },
    tickets,
    nowMs: () => 1_000,
    metrics: {
      regionAcknowledgementsDropped: {
        inc: ({ reason }: { reason: string }, n: number) => dropped.push(`${reason} ${n}`),
      },
    } as unknown as AcknowledgedDeps['metrics'],
    log: { warn() {}, error() {} } as unknown as Log,
    limits: {
      ...{ acknowledgementsWaiting: capacity, acknowledgementsBatchRows: 2 },
      ...{ acknowledgementsEveryMs: 5, acknowledgementsStopMs: 50, acknowledgementsKnown: 9 },
    },
  });
  /** @param qty makes one decision differ from another */
  const record = (requestId: string, operationId = 'redeemCoupon', qty = requestId.charCodeAt(0)) =>
    acknowledged.record('us', 7, request({ requestId, contract: { operationId } }), {
      ...data({ status: 'redeemed', code: 'SECRET', user_id: 'ann', qty }),
      ...{ headers: {}, tries: 1 },
    });
  return { acknowledged, record, dropped, written, state };
}

test('decisions that did not fit while Postgres was away are counted in the next row', async () => {
  const { acknowledged, record, dropped, written, state } = recorder(3);
  acknowledged.start();
  for (const id of ['a', 'b', 'c', 'd', 'e']) record(id);
  record('a check', 'validateCoupons');
  state.isAway = false;
  await until('the others are written', () => written.length === 3);
  await acknowledged.stop();
  expect(dropped).toEqual(['full 1', 'full 1']);
  expect(written.map(({ requestId, unrecorded }) => [requestId, unrecorded])).toEqual([
    ['c', 2],
    ['d', 0],
    ['e', 0],
  ]);
  expect(written[0]).toEqual({
    ...{ id: expect.any(String), atMs: 1_000, region: 'us', epoch: 7, operation: 'redeem', reservation: ID },
    ...{ product: 'us-1', status: 'redeemed', qty: 99, payment: null, requestId: 'c', unrecorded: 2 },
  });
});

test('a stop without Postgres counts what is lost', async () => {
  const { acknowledged, record, dropped } = recorder(3);
  acknowledged.start();
  record('a');
  await acknowledged.stop();
  expect(dropped).toEqual(['stopped 1']);
});

test('replays of a decision are recorded once, so they push out no other', async () => {
  const { acknowledged, record, dropped, written, state } = recorder(3);
  acknowledged.start();
  record('real');
  for (let i = 0; i < 100; i += 1) record('replayed', 'redeemCoupon', 1);
  state.isAway = false;
  await until('both are written', () => written.length === 2);
  await acknowledged.stop();
  expect([written.map(({ requestId }) => requestId), dropped]).toEqual([['real', 'replayed'], []]);
});
