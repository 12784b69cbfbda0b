import {
  type DeviceId,
  type IdempotencyKey,
  type OrderId,
  orderIdOf,
  type ReservationId,
  reservationIdOf,
  type UserId,
} from '../../domain/ids.js';
import type { VelocityVerdict } from '../../domain/velocity.js';
import { ContractError } from '../../errors/faults.js';
import { journaled, rebuilding, reply, text } from '../../redis/reply-fields.js';
import { defineScript } from '../../redis/script-contract.js';
import { REFUSED } from './claim-refusals.js';
import { namesOf, number, numberOrNull, type RawDecision, word, words } from './decisions.js';
import { SALE_KEYS } from './sale-keys.js';

/** Maximum number of requests in a call: about 1 ms of Redis. */
export const MAX_REQUESTS = 64;

/** The argument `input` of lua/reserve.lua. The header of the script documents the names; a test compares both. */
export type ReserveCall = {
  requests: readonly ReserveRequest[];
  key_ttl_ms: string;
  ticket_key: string;
  journal_limit: number;
  device_quota: number;
  device_window_ms: number;
  token_life_ms: number;
  token_skew_ms: number;
  replicated: boolean;
  order_ttl_ms: string;
  buckets?: number;
};

/** One request of a call. `once_key` is a position in the keys of the requests, from 1. */
export type ReserveRequest = {
  user: UserId;
  qty: string;
  prefix: string;
  order?: OrderId;
  token_expires_at?: string;
  key: IdempotencyKey;
  has_quota?: true;
  once_key?: number;
  device?: DeviceId;
  trace?: string;
  metadata?: string;
  request?: string;
  code?: number;
  terms?: number;
  once_expires_at?: number;
  once_issued_at?: number;
  proven?: true;
  holder_device?: DeviceId;
  new_keys?: number;
  line_no?: number;
  position?: number;
  queue_size?: number;
};

/** Names of a call and of a request, as in the header of the script. */
export const CALL_NAMES = namesOf<ReserveCall>({
  requests: true,
  key_ttl_ms: true,
  ticket_key: true,
  journal_limit: true,
  device_quota: true,
  device_window_ms: true,
  token_life_ms: true,
  token_skew_ms: true,
  replicated: true,
  order_ttl_ms: true,
  buckets: true,
});
export const REQUEST_NAMES = namesOf<ReserveRequest>({
  user: true,
  qty: true,
  prefix: true,
  order: true,
  token_expires_at: true,
  key: true,
  once_key: true,
  has_quota: true,
  device: true,
  trace: true,
  metadata: true,
  request: true,
  code: true,
  terms: true,
  once_expires_at: true,
  once_issued_at: true,
  proven: true,
  holder_device: true,
  new_keys: true,
  line_no: true,
  position: true,
  queue_size: true,
});

/** Values that all decisions of a call share. */
export type DecidedCall = {
  no: number;
  at: number;
  due: number;
  terms: number;
  durable: boolean;
  velocity?: VelocityVerdict;
  replies: readonly RawDecision[];
};

/** The argument of a decoder. */
type Decision = {
  raw: RawDecision;
  call: DecidedCall;
  request: Decided;
  /** Journal id of the promise; "" = no promise. */
  journalId: string;
};

/** The fields of a request that decoders need. */
type Decided = { reservationPrefix: string; claim: { order: OrderId | null } };

export const reserveScript = defineScript({
  name: 'reserve',
  keys: [...SALE_KEYS, 'news', 'holders', 'epoch', 'request_keys...'],
  args: ['input:json'],
  batched: true,
  replies: {
    decided: reply({ decisions: text, lastId: text }, journaled),
    not_found: () => ({}),
    rebuilding,
  },
});

/** Every kind of decision about a request, with its decoder. */
const DECISIONS = {
  reserved: ({ raw, call, request, journalId }: Decision) => {
    const reservationId = reservationIdOf(request.reservationPrefix, call.no);
    return {
      reservationId,
      orderId: request.claim.order ?? orderIdOf(reservationId),
      dueMs: call.due,
      durable: call.durable,
      journalId,
      quotaLeft: number(raw, 'quota_left'),
      code: numberOrNull(raw, 'code'),
      terms: call.terms,
      slot: number(raw, 'slot'),
      atMs: call.at,
      stacking: word(raw, 'stacking'),
    };
  },
  queued: ({ raw, call, journalId }: Decision) => ({
    no: call.no,
    position: number(raw, 'position'),
    queueSize: number(raw, 'queue_size'),
    durable: call.durable,
    journalId,
    quotaLeft: number(raw, 'quota_left'),
    /** Milliseconds between two promotions; null = unknown. */
    paceMs: numberOrNull(raw, 'pace'),
    presenceMs: number(raw, 'presence_ms'),
    lineNo: number(raw, 'line_no'),
    atMs: call.at,
    stacking: word(raw, 'stacking'),
  }),
  waiting: ({ raw, call, journalId }: Decision) => ({
    no: call.no,
    position: number(raw, 'position'),
    queueSize: number(raw, 'queue_size'),
    quotaLeft: number(raw, 'quota_left'),
    paceMs: numberOrNull(raw, 'pace'),
    presenceMs: number(raw, 'presence_ms'),
    durable: call.durable,
    journalId,
    atMs: call.at,
    reservationId: word(raw, 'place_id'),
  }),
  place_limited: () => ({}),
  replayed: ({ raw, call }: Decision) => ({ no: call.no, answer: word(raw, 'answer'), durable: call.durable }),
  archived: ({ raw }: Decision) => ({ pass: word(raw, 'pass') }),
  rate_limited: ({ raw }: Decision) => ({ retryMs: number(raw, 'retry_ms') }),
  journal_full: () => ({}),
  not_started: ({ raw, call }: Decision) => ({ startsAtMs: number(raw, 'starts_at_ms'), nowMs: call.at }),
  qty_above_max: ({ raw }: Decision) => ({ maxQty: number(raw, 'max_qty') }),
  terms_changed: ({ raw }: Decision) => ({ version: number(raw, 'version') }),
  short: () => ({}),
  empty: () => ({}),
  draw: ({ raw }: Decision) => ({ lineNo: numberOrNull(raw, 'line_no') }),
  not_combinable: ({ raw }: Decision) => ({ reservations: words<ReservationId>(raw, 'reservations') }),
  ...REFUSED,
};

/** The decision about a request. The store handles `archived`: it restores the user's records and repeats the call. */
export type ReserveDecision = {
  [Kind in keyof typeof DECISIONS]: { kind: Kind } & ReturnType<(typeof DECISIONS)[Kind]>;
}[keyof typeof DECISIONS];
/** Of a bucket: not final, `BucketClaims` handles these. */
type BucketDecision = { kind: 'short' | 'empty' | 'draw' };
export type StoreReserveOutcome = Exclude<ReserveDecision, { kind: 'archived' }>;
export type ReserveOutcome = Exclude<StoreReserveOutcome, BucketDecision>;

/** Kinds of decisions that have a decoder, for the tests that compare them with the header. */
export const DECISION_KINDS = Object.keys(DECISIONS);

/**
 * Decodes the decisions of a call, one for each request in their order.
 * @param lastId journal id of the last promise of the call; "" = no promise
 * @param onVelocity receives the verdict of the watch over velocity, if there is one
 * @returns a ContractError in place of each request that failed
 * @throws ContractError when the reply has another form
 */
export function decodeDecisions(
  text: string,
  lastId: string,
  requests: readonly Decided[],
  onVelocity?: (verdict: VelocityVerdict) => void,
): (ReserveDecision | ContractError)[] {
  const call = JSON.parse(text) as DecidedCall;
  if (call.velocity) onVelocity?.(call.velocity);
  if (call.replies.length !== requests.length) throw new ContractError(`script reserve replied ${text}`);
  const promises = call.replies.filter(isPromise).length;
  const dash = lastId.indexOf('-');
  const history = lastId.slice(0, dash + 1);
  let number = Number(lastId.slice(dash + 1)) - promises;
  return call.replies.map((raw, i) => {
    if (isPromise(raw)) number += 1;
    const journalId = isPromise(raw) ? history + number : '';
    return decodeDecision({ raw, call, request: requests[i] as Decided, journalId });
  });
}

/** Whether a decision has an entry in the journal. */
function isPromise({ kind, journaled }: RawDecision): boolean {
  return kind === 'reserved' || kind === 'queued' || journaled === true;
}

/** Decodes one decision. @returns a ContractError for a failed request or an unknown kind */
export function decodeDecision(decision: Decision): ReserveDecision | ContractError {
  const { raw } = decision;
  if (raw.kind === 'failed') return new ContractError(`script reserve failed: ${raw.reason}`);
  const kind = raw.kind as ReserveDecision['kind'];
  if (!Object.hasOwn(DECISIONS, kind)) throw new ContractError(`script reserve decided ${JSON.stringify(raw)}`);
  const outcome = DECISIONS[kind](decision) as ReserveDecision;
  outcome.kind = kind;
  return outcome;
}
