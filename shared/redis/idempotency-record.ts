import { ContractError } from '../errors/faults.js';

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
      /** Reservation of the ticket; null = no ticket, or an earlier version wrote the record. */
      reservationId: string | null;
    };

/**
 * Decodes a record of lua/reserve.lua: `C|reservation|order|due|ticket key|durability|code|terms`, or
 * `Q|position|size|ticket key|pace|presence|reservation`, whose last fields earlier versions omitted.
 */
export function decodeIdempotencyRecord(text: string): IdempotencyRecord {
  const fields = text.split('|');
  const [kind, a, b, c, d, e, f, terms] = fields;
  const durability = DURABILITIES[Number(e)];
  if (kind === 'C' && fields.length === 8 && durability) {
    return {
      kind: 'completed',
      reservationId: String(a),
      orderId: String(b),
      dueMs: Number(c),
      ticketKey: String(d),
      durability,
      code: f ? Number(f) : null,
      terms: Number(terms),
    };
  }
  if (kind === 'Q' && fields.length >= 4 && fields.length <= 7) {
    return {
      kind: 'queued',
      position: Number(a),
      queueSize: Number(b),
      ticketKey: c || null,
      paceMs: d ? Number(d) : null,
      presenceMs: Number(e ?? 0),
      reservationId: f || null,
    };
  }
  throw new ContractError(`an idempotency record is malformed: ${text}`);
}

/** Encodes a record in the format of lua/reserve.lua. */
export function encodeIdempotencyRecord(answer: IdempotencyRecord): string {
  if (answer.kind === 'completed') {
    const { reservationId, orderId, dueMs, ticketKey, durability, code, terms } = answer;
    return `C|${reservationId}|${orderId}|${dueMs}|${ticketKey}|${encodeDurability(durability)}|${code ?? ''}|${terms}`;
  }
  const { position, queueSize, ticketKey, paceMs, presenceMs, reservationId } = answer;
  return `Q|${position}|${queueSize}|${ticketKey ?? ''}|${paceMs ?? ''}|${presenceMs}|${reservationId ?? ''}`;
}
