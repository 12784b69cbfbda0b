import { ContractError } from '../errors/faults.js';
import { OPERATORS } from './keys.js';
import { packRecord, parseRecord } from './record-format.js';
import { COMPLETED, FINGERPRINT, QUEUED, REDEMPTION } from './record-formats.js';

/** What a response waited for: the journal, replicas of Redis, or the commit in Postgres. */
export type Durability = 'journaled' | 'committed' | 'replicated';
/** The digit in a record is the index. */
const DURABILITIES = ['journaled', 'committed', 'replicated'] as const;

/** Returns the durability, as lua/reserve.lua does. @param replicas number of replicas that responses wait for */
export function durabilityOf(durable: boolean, replicas: number): Durability {
  if (durable) return 'committed';
  return replicas > 0 ? 'replicated' : 'journaled';
}

/** @param digit as scripts write it @throws ContractError for an unknown digit */
export function decodeDurability(digit: string): Durability {
  const durability = DURABILITIES[Number(digit)];
  if (!durability) throw new ContractError(`the durability ${digit} is unknown`);
  return durability;
}

/** Returns the digit that scripts write. */
export function encodeDurability(durability: Durability): string {
  return String(DURABILITIES.indexOf(durability));
}

/** Content of an idempotency record: enough to send the first response again, byte for byte. */
export type IdempotencyRecord =
  | {
      kind: 'completed';
      reservationId: string;
      orderId: string;
      dueMs: number;
      ticketKey: string;
      durability: Durability;
      /** Number of the code; null = no code. */
      code: number | null;
      /** Version of the terms under which the reservation was made. */
      terms: number;
    }
  | {
      kind: 'queued';
      position: number;
      queueSize: number;
      /** null = the response has no ticket. */
      ticketKey: string | null;
      /** Milliseconds per position in the line; null = unknown. */
      paceMs: number | null;
      /** How long a waiting user may be unseen, milliseconds; 0 = any time. */
      presenceMs: number;
      /** Reservation of the ticket; null = no ticket. */
      reservationId: string | null;
    };

/** A whole record: the request that the key was used for, and its response. */
export type StoredRequest = { no: number; user: string; record: IdempotencyRecord };

/** Decodes the response in a record (`COMPLETED`, `QUEUED`). @throws ContractError if it is malformed */
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

/** Encodes a response in the format of lua/reserve.lua. */
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

/** @param request identifies the request in addition to product, user and quantity; "" = a checkout */
export function encodeStoredRequest(no: number, qty: number, user: string, request: string, answer: string): string {
  return packRecord(FINGERPRINT, { no, qty, user, request: request + answer });
}

/** Begins the record of a restock, whose key belongs to the operators: `restock|campaign|delta|total|journal id`. */
const RESTOCK = 'restock|';

/** Returns the number of the campaign, or of its bucket, in the record of a restock; null = of another request. */
export function restockedIn(text: string): number | null {
  return text.startsWith(RESTOCK) ? Number(text.split('|')[1]) : null;
}

/** Returns the owner of the key of a whole record, as `keys.idempotency` takes it; null = the record is malformed. */
export function ownerOf(text: string): string | null {
  return restockedIn(text) === null ? (decodeStoredRequest(text)?.user ?? null) : OPERATORS;
}

/** Decodes a whole record; null = not a record of a checkout or redemption, for instance that of a restock. */
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
