import { ContractError } from '../errors/faults.js';
import { packRecord, parseRecord } from './record-format.js';
import { COMPLETED, FINGERPRINT, QUEUED, REDEMPTION } from './record-formats.js';

/** What a response waited for before it was sent: the journal, replicas of Redis, or the commit in Postgres. */
export type Durability = 'journaled' | 'committed' | 'replicated';
/** By the digit in the record. */
const DURABILITIES = ['journaled', 'committed', 'replicated'] as const;

/** As lua/reserve.lua decides it. @param replicas that the caller waits for */
export function durabilityOf(durable: boolean, replicas: number): Durability {
  if (durable) return 'committed';
  return replicas > 0 ? 'replicated' : 'journaled';
}

/** @param digit as scripts write it @throws ContractError when there is no such durability */
export function decodeDurability(digit: string): Durability {
  const durability = DURABILITIES[Number(digit)];
  if (!durability) throw new ContractError(`there is no durability ${digit}`);
  return durability;
}

/** The digit that scripts write. */
export function encodeDurability(durability: Durability): string {
  return String(DURABILITIES.indexOf(durability));
}

/** The answer that an idempotency record keeps: enough to say the first one again, byte for byte. */
export type IdempotencyRecord =
  | {
      kind: 'completed';
      reservationId: string;
      orderId: string;
      dueMs: number;
      ticketKey: string;
      durability: Durability;
      /** Number of the code; null = none. */
      code: number | null;
      /** Version of the terms it was made under. */
      terms: number;
    }
  | {
      kind: 'queued';
      position: number;
      queueSize: number;
      /** null = the answer has no ticket. */
      ticketKey: string | null;
      /** Milliseconds for each person in the line; null = unknown. */
      paceMs: number | null;
      /** How often the user must be seen; 0 = presence does not matter. */
      presenceMs: number;
      /** The place that the ticket is for; null = the answer has none, or an earlier version made it. */
      reservationId: string | null;
    };

/** A whole record: the request that the key was used for, and its answer. */
export type StoredRequest = { no: number; user: string; record: IdempotencyRecord };

/** Reads the answer of a record (`COMPLETED`, `QUEUED`). @throws ContractError when it is malformed */
export function decodeIdempotencyRecord(text: string): IdempotencyRecord {
  if (text.startsWith(COMPLETED.begin)) {
    const { reservation_id, order_id, due, ticket_key, durability, code, terms } = parseRecord(COMPLETED, text);
    return {
      kind: 'completed',
      reservationId: reservation_id,
      orderId: order_id,
      dueMs: due,
      ticketKey: ticket_key,
      durability: decodeDurability(durability),
      code,
      terms,
    };
  }
  const { position, queue_size, ticket_key, pace, presence_ms, place_id } = parseRecord(QUEUED, text);
  return {
    kind: 'queued',
    position,
    queueSize: queue_size,
    ticketKey: ticket_key || null,
    paceMs: pace,
    presenceMs: presence_ms,
    reservationId: place_id || null,
  };
}

/** Writes the answer as lua/reserve.lua does. */
export function encodeIdempotencyRecord(answer: IdempotencyRecord): string {
  if (answer.kind === 'completed') {
    const { reservationId, orderId, dueMs, ticketKey, durability, code, terms } = answer;
    return packRecord(COMPLETED, {
      reservation_id: reservationId,
      order_id: orderId,
      due: dueMs,
      ticket_key: ticketKey,
      durability: encodeDurability(durability),
      code,
      terms,
    });
  }
  const { position, queueSize, ticketKey, paceMs, presenceMs, reservationId } = answer;
  return packRecord(QUEUED, {
    position,
    queue_size: queueSize,
    ticket_key: ticketKey ?? '',
    pace: paceMs,
    presence_ms: presenceMs,
    place_id: reservationId ?? '',
  });
}

/** @param request what beside product, user and quantity makes the request the same; "" for a checkout */
export function encodeStoredRequest(no: number, qty: number, user: string, request: string, answer: string): string {
  return packRecord(FINGERPRINT, { no, qty, user, request: request + answer });
}

/** Reads a whole record. Returns null for one that is not of a checkout or redemption, such as a restock's. */
export function decodeStoredRequest(text: string): StoredRequest | null {
  try {
    const { no, user, request } = parseRecord(FINGERPRINT, text);
    const answer = request.startsWith(REDEMPTION.begin) ? parseRecord(REDEMPTION, request).answer : request;
    return { no, user, record: decodeIdempotencyRecord(answer) };
  } catch (error) {
    if (error instanceof ContractError) return null;
    throw error;
  }
}
