import type { OrderId, ReservationId, UserId } from '../../domain/ids.js';
import { ContractError } from '../../errors/faults.js';
import { journaled, rebuilding, reply, text } from '../../redis/reply-fields.js';
import { defineScript, type WithoutEntries } from '../../redis/script-contract.js';
import { boolean, namesOf, number, oneOf, type RawDecision, word, words } from './decisions.js';
import { MOVING_KEYS } from './sale-keys.js';

/**
 * Maximum number of payments or releases in a call. Each may promote the next user in line, so 32 take 1 to 2 ms of
 * Redis.
 */
export const MAX_SETTLEMENTS = 32;

/** A request to lua/confirm.lua, with the names of its header. `order_key` is a position in `request_keys`, from 1. */
export type ConfirmRequest = {
  reservation_id: ReservationId;
  payment_ref: string;
  actor: string;
  trace: string;
  order_state: 'unknown' | 'known' | 'taken';
  order_key?: number;
};
export const CONFIRM_NAMES = namesOf<ConfirmRequest>({
  reservation_id: true,
  payment_ref: true,
  actor: true,
  trace: true,
  order_state: true,
  order_key: true,
});

/** The argument `input` of lua/confirm.lua. */
export type ConfirmCall = { requests: readonly ConfirmRequest[]; order_ttl_ms: number };

/** A request to lua/release.lua. */
export type ReleaseRequest = {
  reservation_id: ReservationId;
  holder: string;
  reason: string;
  actor: string;
  trace: string;
  /** At least 1; missing = the reservation ends. */
  keep?: number;
};
export const RELEASE_NAMES = namesOf<ReleaseRequest>({
  reservation_id: true,
  holder: true,
  reason: true,
  actor: true,
  trace: true,
  keep: true,
});

/** The argument `input` of lua/release.lua. */
export type ReleaseCall = { requests: readonly ReleaseRequest[] };

/** Decisions as JSON, followed by the journal entries of all of them. */
const decided = reply({ decisions: text }, journaled);

export const confirmScript = defineScript({
  name: 'confirm',
  keys: [...MOVING_KEYS, 'payments', 'request_keys...'],
  args: ['input:json'],
  batched: true,
  replies: { decided, not_found: () => ({}), rebuilding },
});

export const releaseScript = defineScript({
  name: 'release',
  keys: MOVING_KEYS,
  args: ['input:json'],
  batched: true,
  replies: { decided, not_found: () => ({}), rebuilding },
});

/** The argument of a decoder: the decision, whether responses wait for Postgres, and the entries of this request. */
type Decision = { raw: RawDecision; durable: boolean; entries: readonly string[] };

const acknowledged = ({ durable, entries }: Decision) => ({ durable, journalId: journalIdOf(entries.at(-1)), entries });
const archived = ({ raw }: Decision) => ({ pass: word(raw, 'pass') });
const none = () => ({});

const ended = (decision: Decision) => ({
  state: oneOf(decision.raw, 'state', ['released', 'expired', 'refunded', 'burned', 'voided']),
  ...acknowledged(decision),
});

export const CONFIRM_DECISIONS = {
  redeemed: (decision: Decision) => ({
    orderId: word(decision.raw, 'order_id'),
    reacquired: boolean(decision.raw, 'reacquired'),
    paidBy: word(decision.raw, 'paid_by'),
    /** Units of the reservation, if some were given back; else null. */
    qty: decision.raw.qty === undefined ? null : number(decision.raw, 'qty'),
    ...acknowledged(decision),
  }),
  ended,
  short: ended,
  order_needed: ({ raw }: Decision) => ({ user: word(raw, 'user') as UserId, order: word(raw, 'order_id') as OrderId }),
  not_combinable: ({ raw }: Decision) => ({ reservations: words<ReservationId>(raw, 'reservations') }),
  archived,
  not_found: none,
};

export const RELEASE_DECISIONS = {
  released: (decision: Decision) => ({
    state: oneOf(decision.raw, 'state', ['released', 'expired']),
    ...acknowledged(decision),
  }),
  kept: (decision: Decision) => ({
    qty: number(decision.raw, 'qty'),
    released: number(decision.raw, 'released'),
    ...acknowledged(decision),
  }),
  settled: (decision: Decision) => ({
    state: oneOf(decision.raw, 'state', ['redeemed', 'reacquired', 'refunded', 'burned', 'voided']),
    ...acknowledged(decision),
  }),
  foreign: none,
  archived,
  not_found: none,
};

type Decoders = Record<string, (decision: Decision) => object>;
type DecisionOf<Kinds extends Decoders> = {
  [Kind in keyof Kinds & string]: { kind: Kind } & ReturnType<Kinds[Kind]>;
}[keyof Kinds & string];

export type ConfirmDecision = DecisionOf<typeof CONFIRM_DECISIONS>;
export type ReleaseDecision = DecisionOf<typeof RELEASE_DECISIONS>;

/**
 * The store handles the other kinds: it passes the key of the order, fetches units, and restores users of archived
 * campaigns.
 */
export type ConfirmOutcome = Exclude<
  WithoutEntries<ConfirmDecision>,
  { kind: 'short' | 'order_needed' | 'not_combinable' | 'archived' }
>;
export type ReleaseOutcome = Exclude<WithoutEntries<ReleaseDecision>, { kind: 'archived' }>;

/**
 * Decodes the decisions of a call, in the order of its requests.
 * @param entries journal entries of all requests, in their order
 * @throws ContractError when the reply has another form
 */
export function decodeSettlements<Kinds extends Decoders>(
  decoders: Kinds,
  decisions: string,
  entries: readonly string[],
): DecisionOf<Kinds>[] {
  const { durable, replies } = JSON.parse(decisions) as { durable: boolean; replies: readonly RawDecision[] };
  let next = 0;
  return replies.map((raw) => {
    const decode = Object.hasOwn(decoders, raw.kind) ? decoders[raw.kind] : undefined;
    if (!decode) throw new ContractError(`a script decided ${JSON.stringify(raw)}`);
    const first = next;
    next += number(raw, 'entries');
    return { kind: raw.kind, ...decode({ raw, durable, entries: entries.slice(first, next) }) } as DecisionOf<Kinds>;
  });
}

/** Returns the id of an entry; "" without an entry. */
function journalIdOf(entry: string | undefined): string {
  return entry === undefined ? '' : entry.slice(2, entry.indexOf('"', 2));
}
