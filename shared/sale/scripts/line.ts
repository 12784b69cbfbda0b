import type { Standing } from '../../domain/reservation.js';
import {
  acknowledged,
  archived,
  count,
  countOrNone,
  flag,
  journaled,
  rebuilding,
  reply,
} from '../../redis/reply-fields.js';
import { type Decided, defineScript, type OutcomeOf, type WithoutEntries } from '../../redis/script-contract.js';
import { MOVING_KEYS } from './sale-keys.js';

/** Whether the shard has one bucket of a divided campaign, and another one may have what the user has. */
const isBucket = (value: string): boolean => value === 'bucket';

export const expireScript = defineScript({
  name: 'expire',
  keys: MOVING_KEYS,
  args: ['limit:int'],
  replies: {
    swept: reply({ expired: count, promoted: count, due: count }, journaled),
    not_found: () => ({}),
    rebuilding,
  },
});
export type ExpireOutcome = WithoutEntries<OutcomeOf<typeof expireScript>>;

export const promoteScript = defineScript({
  name: 'promote',
  keys: MOVING_KEYS,
  args: ['limit:int', 'up_to:int?'],
  replies: { promoted: reply({ count }, journaled), not_found: () => ({}), rebuilding },
});
export type PromoteOutcome = WithoutEntries<OutcomeOf<typeof promoteScript>>;

export const leaveScript = defineScript({
  name: 'leave',
  keys: MOVING_KEYS,
  args: ['user', 'place', 'trace', 'actor', 'request_id', 'reason'],
  replies: {
    left: acknowledged,
    not_waiting: reply({ isBucket }),
    archived,
    not_found: () => ({}),
    rebuilding,
  },
});
export type LeaveOutcome = WithoutEntries<Decided<typeof leaveScript>>;

export const maintainLineScript = defineScript({
  name: 'maintain_line',
  keys: MOVING_KEYS,
  args: ['limit:int', 'group_wait_ms:int', 'settle_ms:int'],
  replies: {
    tended: reply({ away: count, left: count, closed: count, promoted: count, more: flag }, journaled),
    not_found: () => ({}),
    rebuilding,
  },
});
export type MaintainLineOutcome = WithoutEntries<OutcomeOf<typeof maintainLineScript>>;

export const noteElsewhereScript = defineScript({
  name: 'note_elsewhere',
  keys: ['campaign', 'epoch'],
  args: ['what', 'keep_ms:int'],
  replies: { noted: () => ({}), not_found: () => ({}), rebuilding },
});
export type NoteElsewhereOutcome = OutcomeOf<typeof noteElsewhereScript>;

export const heartbeatScript = defineScript({
  name: 'heartbeat',
  keys: ['campaign', 'line', 'presence', 'epoch'],
  each: ['user', 'age_ms:int'],
  batched: true,
  replies: { attended: reply({ returned: count }), not_found: () => ({}), rebuilding },
});
export type HeartbeatOutcome = OutcomeOf<typeof heartbeatScript>;

export const shopperStatusScript = defineScript({
  name: 'shopper_status',
  keys: ['campaign', 'people', 'reservations', 'line', 'epoch'],
  each: ['user', 'place'],
  batched: true,
  replies: {
    standings: reply(
      { isBucket, queueSize: count, presenceMs: count, durable: flag, paceMs: countOrNone },
      // One text for each request, decoded by shared/sale/standings.ts.
      (fields, from) => ({ standings: fields.slice(from) }),
    ),
    not_found: () => ({}),
    rebuilding,
  },
});
/** Status of one shopper; `reservationId` to `qty` are "", "", 0, null and 0 when the user holds nothing. */
export type ShopperStatusOutcome =
  | {
      kind: 'standing';
      status: Standing;
      /** 0 = not in the line */
      position: number;
      /** By how many places the position may be wrong; missing = it is exact. */
      positionError?: number;
      queueSize: number;
      reservationId: string;
      orderId: string;
      dueMs: number;
      code: number | null;
      qty: number;
      /** Milliseconds between two promotions; null = unknown, or the user does not wait. */
      paceMs: number | null;
      /** 0 = the campaign does not require presence */
      presenceMs: number;
      /** Whether responses wait for Postgres. */
      durable: boolean;
    }
  | { kind: 'not_found' };

export const positionsScript = defineScript({
  name: 'positions',
  keys: ['campaign', 'line', 'epoch'],
  each: ['user'],
  replies: {
    positions: reply({ queueSize: count, paceMs: countOrNone }, (fields, from) => ({
      positions: fields.slice(from).map(Number),
    })),
    not_found: () => ({}),
    rebuilding,
  },
});
/** `errors`: by how many places each position may be wrong; missing = they are exact. */
export type PositionsOutcome = OutcomeOf<typeof positionsScript> & { errors?: readonly number[] };
