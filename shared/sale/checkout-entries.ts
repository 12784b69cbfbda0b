import type { RawEntry } from '../contracts/journal.js';
import { reservationIdOf } from '../domain/ids.js';
import { durabilityOf, encodeIdempotencyRecord, encodeStoredRequest } from '../redis/idempotency-record.js';
import { packRecord } from '../redis/record-format.js';
import { REDEMPTION } from '../redis/record-formats.js';
import type { ClaimRequest, ReserveInput } from './reserve-input.js';
import type { ReserveOutcome } from './scripts/reserve.js';

type Outcome<Kind extends ReserveOutcome['kind']> = Extract<ReserveOutcome, { kind: Kind }>;

/**
 * Rebuilds the entry that lua/reserve.lua has appended from the request and the reply. The script is the hot path and
 * returns no entry. A test compares both for every case.
 */
export function reservedEntry(
  input: ReserveInput,
  outcome: Outcome<'reserved'>,
  no: number,
  replicas: number,
): RawEntry {
  const { reservationId, orderId, dueMs, durable, code, terms, slot, atMs, journalId } = outcome;
  const { claim, ticketKey } = input;
  const durability = durabilityOf(durable, replicas);
  const completed = { kind: 'completed', reservationId, orderId, dueMs, ticketKey, durability, code, terms } as const;
  return {
    journalId,
    fields: {
      kind: 'reserved',
      no: String(no),
      reservation: reservationId,
      user: claim.user,
      order: orderId,
      qty: String(claim.qty),
      slot: String(slot),
      at: String(atMs),
      due: String(dueMs),
      line: '0',
      state: dueMs > 0 ? 'reserved' : 'redeemed',
      code: code === null ? '' : String(code),
      terms: String(terms),
      key: claim.key,
      answer: answerText(input, no, completed),
      device: claim.device ?? '',
      trace: claim.trace,
      stacking: outcome.stacking,
      ...(claim.metadata ? { metadata: claim.metadata } : {}),
    },
  };
}

export function queuedEntry(input: ReserveInput, outcome: Outcome<'queued'>): RawEntry {
  const { claim } = input;
  const { no, journalId, lineNo, atMs } = outcome;
  return {
    journalId,
    fields: {
      kind: 'queued',
      no: String(no),
      reservation: reservationIdOf(input.reservationPrefix, no),
      user: claim.user,
      order: claim.order ?? '',
      qty: String(claim.qty),
      line: String(lineNo),
      code: claim.coupon?.code ? String(claim.coupon.code) : '',
      at: String(atMs),
      key: claim.key,
      answer: placeText(input, outcome, reservationIdOf(input.reservationPrefix, no)),
      device: claim.device ?? '',
      trace: claim.trace,
      stacking: outcome.stacking,
      ...(claim.metadata ? { metadata: claim.metadata } : {}),
    },
  };
}

/** Returns the idempotency record of a response that acknowledges a promise again. */
export function repeatedAnswer(input: ReserveInput, outcome: Outcome<'waiting' | 'replayed'>): string {
  if (outcome.kind === 'waiting') return placeText(input, outcome, outcome.reservationId);
  return encodeStoredRequest(outcome.no, input.claim.qty, input.claim.user, requestOf(input.claim), outcome.answer);
}

/** Returns the fields of a request's fingerprint besides product, user and quantity. lua/reserve.lua compares it. */
export function requestOf({ coupon, order }: Pick<ClaimRequest, 'coupon' | 'order'>): string {
  return coupon ? packRecord(REDEMPTION, { code: coupon.code, order: order ?? '', answer: '' }) : '';
}

/** @param placeId reservation id on the ticket; "" = no ticket */
function placeText(input: ReserveInput, outcome: Outcome<'queued' | 'waiting'>, placeId: string): string {
  const { position, queueSize, paceMs, presenceMs } = outcome;
  return answerText(input, outcome.no, {
    kind: 'queued',
    position,
    queueSize,
    ticketKey: placeId === '' ? null : input.ticketKey,
    paceMs,
    presenceMs,
    reservationId: placeId || null,
  });
}

function answerText(input: ReserveInput, no: number, answer: Parameters<typeof encodeIdempotencyRecord>[0]): string {
  return encodeStoredRequest(
    no,
    input.claim.qty,
    input.claim.user,
    requestOf(input.claim),
    encodeIdempotencyRecord(answer),
  );
}
