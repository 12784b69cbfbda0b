import { describe, expect, it } from '@jest/globals';
import { type CampaignTerms, type StoredTerms, termColumns, termFields, termsOf, termsOfFields } from './terms.js';

const terms: CampaignTerms = {
  name: 'A sale',
  startsAt: new Date(1_000),
  endsAt: new Date(2_000),
  timeZone: 'Europe/Berlin',
  discount: { kind: 'percent', percent: 20 },
  holdSeconds: 60,
  perUserLimit: 2,
  maxQty: 3,
  waitingRoom: { enabled: true, maxSize: 500, presenceSeconds: 30, absentHoldSeconds: 900 },
  confirmation: 'durable',
  latePayment: 'reacquire',
  refundPolicy: 'burn',
  requireAttestation: true,
};
const none: CampaignTerms = {
  ...terms,
  endsAt: null,
  discount: null,
  waitingRoom: { enabled: false, maxSize: 0, presenceSeconds: null },
  confirmation: 'fast',
  requireAttestation: false,
};

/** The row that Postgres returns, which has decoded the JSON. */
const rowOf = (some: CampaignTerms): StoredTerms =>
  Object.fromEntries(
    termColumns(some).map(({ column, value }) => [
      column,
      typeof value === 'string' && value.startsWith('{') ? JSON.parse(value) : value,
    ]),
  ) as StoredTerms;

describe('the terms of a campaign', () => {
  it('are read from the columns to which they are written', () => {
    for (const some of [terms, none]) expect(termsOf(rowOf(some))).toEqual(some);
    expect(rowOf(terms)).toMatchObject({
      starts_at: terms.startsAt,
      hold_seconds: 60,
      waiting_room: { enabled: true, max_size: 500, presence_seconds: 30, absent_hold_seconds: 900 },
    });
    // The form of earlier versions.
    expect(rowOf(none).waiting_room).toEqual({ enabled: false, max_size: 0, presence_seconds: null });
  });

  it('are ms, flags and words in Redis, without what no script needs, and are read from there', () => {
    expect(termFields(terms)).toEqual({
      starts_at: 1_000,
      ends_at: 2_000,
      hold_ms: 60_000,
      per_user_limit: 2,
      max_qty: 3,
      line_enabled: 1,
      line_max: 500,
      presence_ms: 30_000,
      absent_hold_ms: 900_000,
      durable: 1,
      late_payment: 'reacquire',
      refund_policy: 'burn',
      attest: 1,
    });
    for (const { name, timeZone, discount, ...inRedis } of [terms, none]) {
      const some = { name, timeZone, discount, ...inRedis };
      const hash = Object.entries(termFields(some)).map(([field, value]) => [field, String(value)]);
      expect(termsOfFields(Object.fromEntries(hash))).toEqual(inRedis);
    }
    expect(termFields(none)).toMatchObject({
      ends_at: 0,
      line_enabled: 0,
      presence_ms: 0,
      absent_hold_ms: 0,
      durable: 0,
      attest: 0,
    });
  });
});
