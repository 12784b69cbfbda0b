import { STANDINGS } from '../../domain/reservation.js';
import { type Decided, defineScript, type OutcomeOf, type WithoutEntries } from '../script-runner.js';
import {
  acknowledged,
  archived,
  codeNumber,
  count,
  flag,
  journaled,
  oneOf,
  paceMs,
  rebuilding,
  text,
} from './reply-fields.js';
import { MOVING_KEYS } from './sale-keys.js';

export const expireScript = defineScript({
  name: 'expire',
  keys: MOVING_KEYS,
  args: ['limit'],
  replies: {
    swept: (f) => ({ expired: count(f, 0), promoted: count(f, 1), due: count(f, 2), ...journaled(f, 3) }),
    not_found: () => ({}),
    rebuilding,
  },
});
export type ExpireOutcome = WithoutEntries<OutcomeOf<typeof expireScript>>;

export const promoteScript = defineScript({
  name: 'promote',
  keys: MOVING_KEYS,
  args: ['limit'],
  replies: { promoted: (f) => ({ count: count(f, 0), ...journaled(f, 1) }), not_found: () => ({}), rebuilding },
});
export type PromoteOutcome = WithoutEntries<OutcomeOf<typeof promoteScript>>;

export const leaveScript = defineScript({
  name: 'leave',
  keys: MOVING_KEYS,
  args: ['user', 'place', 'trace'],
  replies: { left: (f) => acknowledged(f, 0), not_waiting: () => ({}), archived, not_found: () => ({}), rebuilding },
});
export type LeaveOutcome = WithoutEntries<Decided<typeof leaveScript>>;

export const tendLineScript = defineScript({
  name: 'tend_line',
  keys: MOVING_KEYS,
  args: ['limit', 'group_wait_ms', 'settle_ms'],
  replies: {
    tended: (f) => ({
      away: count(f, 0),
      left: count(f, 1),
      closed: count(f, 2),
      promoted: count(f, 3),
      more: flag(f, 4),
      ...journaled(f, 5),
    }),
    not_found: () => ({}),
    rebuilding,
  },
});
export type TendLineOutcome = WithoutEntries<OutcomeOf<typeof tendLineScript>>;

export const attendScript = defineScript({
  name: 'attend',
  keys: ['campaign', 'line', 'presence', 'epoch'],
  args: ['user', 'age_ms'],
  variadic: true,
  replies: { attended: (f) => ({ returned: count(f, 0) }), not_found: () => ({}), rebuilding },
});
export type AttendOutcome = OutcomeOf<typeof attendScript>;

export const standingScript = defineScript({
  name: 'standing',
  keys: ['campaign', 'people', 'reservations', 'line', 'epoch'],
  args: ['user', 'place'],
  replies: {
    standing: (f) => ({
      status: oneOf(f, 0, STANDINGS),
      position: count(f, 1),
      queueSize: count(f, 2),
      reservationId: text(f, 3),
      orderId: text(f, 4),
      dueMs: count(f, 5),
      code: codeNumber(f, 6),
      paceMs: paceMs(f, 7),
      presenceMs: count(f, 8),
      durable: flag(f, 9),
    }),
    archived: (f) => ({ ...archived(f), presenceMs: count(f, 1) }),
    not_found: () => ({}),
    rebuilding,
  },
});
export type StandingOutcome = Decided<typeof standingScript>;

export const positionsScript = defineScript({
  name: 'positions',
  keys: ['campaign', 'line', 'epoch'],
  args: ['user'],
  variadic: true,
  replies: {
    positions: (f) => ({
      queueSize: count(f, 0),
      paceMs: paceMs(f, 1),
      positions: f.slice(2).map(Number),
    }),
    not_found: () => ({}),
    rebuilding,
  },
});
export type PositionsOutcome = OutcomeOf<typeof positionsScript>;
