import { defineScript, type OutcomeOf } from '../script-runner.js';
import { count, flag, rebuilding, text } from './reply-fields.js';

const SALE_KEYS = ['campaign', 'people', 'reservations', 'deadlines', 'line', 'journal'] as const;

export const reserveScript = defineScript({
  name: 'reserve',
  keys: [...SALE_KEYS, 'idempotency', 'device', 'epoch'],
  args: [
    'user',
    'qty',
    'reservation_prefix',
    'order_id',
    'token',
    'token_expires_at',
    'key',
    'key_ttl_ms',
    'ticket_key',
    'journal_limit',
    'device',
    'device_quota',
    'device_window_ms',
    'trace',
  ],
  replies: {
    reserved: (f) => ({
      reservationId: text(f, 0),
      orderId: text(f, 1),
      dueMs: count(f, 2),
      durable: flag(f, 3),
      journalId: text(f, 4),
      quotaLeft: count(f, 5),
    }),
    queued: (f) => ({
      no: count(f, 0),
      position: count(f, 1),
      queueSize: count(f, 2),
      durable: flag(f, 3),
      journalId: text(f, 4),
      quotaLeft: count(f, 5),
    }),
    waiting: (f) => ({ no: count(f, 0), position: count(f, 1), queueSize: count(f, 2), quotaLeft: count(f, 3) }),
    replayed: (f) => ({ no: count(f, 0), answer: text(f, 1) }),
    key_reused: () => ({}),
    attestation_missing: () => ({}),
    attestation_expired: () => ({}),
    attestation_future: () => ({}),
    rate_limited: (f) => ({ retryMs: count(f, 0) }),
    journal_full: () => ({}),
    not_found: () => ({}),
    rebuilding,
    paused: () => ({}),
    ended: () => ({}),
    not_started: (f) => ({ startsAtMs: count(f, 0), nowMs: count(f, 1) }),
    qty_above_max: (f) => ({ maxQty: count(f, 0) }),
    limit_reached: () => ({}),
    sold_out: () => ({}),
    line_full: () => ({}),
  },
});
export type ReserveOutcome = OutcomeOf<typeof reserveScript>;
