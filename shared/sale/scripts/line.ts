import type { Standing } from '../../domain/reservation.js';
import { acknowledged, archived, count, flag, journaled, paceMs, rebuilding, text } from '../../redis/reply-fields.js';
import { type Decided, defineScript, type OutcomeOf, type WithoutEntries } from '../../redis/script-contract.js';
import { MOVING_KEYS } from './sale-keys.js';

/** `isBucket`: the shard has one bucket of a divided campaign, and another one may have what the user has. */
const part = (fields: readonly string[]): { isBucket?: true } =>
  text(fields, 0) === 'bucket' ? { isBucket: true } : {};

export const expireScript = defineScript({
  name: 'expire',
  keys: MOVING_KEYS,
  args: ['limit:int'],
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
  args: ['limit:int', 'up_to:int?'],
  replies: { promoted: (f) => ({ count: count(f, 0), ...journaled(f, 1) }), not_found: () => ({}), rebuilding },
});
export type PromoteOutcome = WithoutEntries<OutcomeOf<typeof promoteScript>>;

export const leaveScript = defineScript({
  name: 'leave',
  keys: MOVING_KEYS,
  args: ['user', 'place', 'trace', 'actor', 'request_id', 'reason'],
  replies: {
    left: (f) => acknowledged(f, 0),
    not_waiting: part,
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
  replies: { attended: (f) => ({ returned: count(f, 0) }), not_found: () => ({}), rebuilding },
});
export type HeartbeatOutcome = OutcomeOf<typeof heartbeatScript>;

export const shopperStatusScript = defineScript({
  name: 'shopper_status',
  keys: ['campaign', 'people', 'reservations', 'line', 'epoch'],
  each: ['user', 'place'],
  batched: true,
  replies: {
    standings: (f) => ({
      ...part(f),
      queueSize: count(f, 1),
      presenceMs: count(f, 2),
      durable: flag(f, 3),
      paceMs: paceMs(f, 4),
      /** One text for each request, decoded by shared/sale/standings.ts. */
      standings: f.slice(5),
    }),
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
    positions: (f) => ({
      queueSize: count(f, 0),
      paceMs: paceMs(f, 1),
      positions: f.slice(2).map(Number),
    }),
    not_found: () => ({}),
    rebuilding,
  },
});
/** `errors`: by how many places each position may be wrong; missing = they are exact. */
export type PositionsOutcome = OutcomeOf<typeof positionsScript> & { errors?: readonly number[] };
