import { STANDINGS } from '../../domain/reservation.js';
import { defineScript, type OutcomeOf } from '../script-runner.js';
import { codeNumber, count, oneOf, rebuilding, text } from './reply-fields.js';

const KEYS = ['campaign', 'people', 'reservations', 'deadlines', 'line', 'codes', 'journal', 'news', 'epoch'] as const;

export const expireScript = defineScript({
  name: 'expire',
  keys: KEYS,
  args: ['limit'],
  replies: {
    swept: (f) => ({ expired: count(f, 0), promoted: count(f, 1), due: count(f, 2) }),
    not_found: () => ({}),
    rebuilding,
  },
});
export type ExpireOutcome = OutcomeOf<typeof expireScript>;

export const promoteScript = defineScript({
  name: 'promote',
  keys: KEYS,
  args: ['limit'],
  replies: { promoted: (f) => ({ count: count(f, 0) }), not_found: () => ({}), rebuilding },
});
export type PromoteOutcome = OutcomeOf<typeof promoteScript>;

export const leaveScript = defineScript({
  name: 'leave',
  keys: KEYS,
  args: ['user', 'trace'],
  replies: { left: () => ({}), not_waiting: () => ({}), not_found: () => ({}), rebuilding },
});
export type LeaveOutcome = OutcomeOf<typeof leaveScript>;

export const standingScript = defineScript({
  name: 'standing',
  keys: ['campaign', 'people', 'reservations', 'line', 'epoch'],
  args: ['user'],
  replies: {
    standing: (f) => ({
      status: oneOf(f, 0, STANDINGS),
      position: count(f, 1),
      queueSize: count(f, 2),
      reservationId: text(f, 3),
      orderId: text(f, 4),
      dueMs: count(f, 5),
      code: codeNumber(f, 6),
    }),
    not_found: () => ({}),
    rebuilding,
  },
});
export type StandingOutcome = OutcomeOf<typeof standingScript>;

export const positionsScript = defineScript({
  name: 'positions',
  keys: ['campaign', 'line', 'epoch'],
  args: ['user'],
  variadic: true,
  replies: {
    positions: (f) => ({ queueSize: count(f, 0), positions: f.slice(1).map(Number) }),
    not_found: () => ({}),
    rebuilding,
  },
});
export type PositionsOutcome = OutcomeOf<typeof positionsScript>;
