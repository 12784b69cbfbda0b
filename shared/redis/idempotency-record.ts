import { ContractError } from '../errors/faults.js';

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
      /** Milliseconds for each person in the line; null = nobody could say. */
      paceMs: number | null;
      /** How often he must be seen; 0 = he need not be. */
      presenceMs: number;
      /** The place that the ticket is for; null = the answer has none, or an earlier version made it. */
      reservationId: string | null;
    };

/**
 * Decodes what lua/reserve.lua remembers: `C|reservation|order|due|ticket key|durability|code|terms`, or
 * `Q|position|size|ticket key|pace|presence|reservation`, of which an earlier version left out the end.
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

/** The form that lua/reserve.lua remembers. */
export function encodeIdempotencyRecord(answer: IdempotencyRecord): string {
  if (answer.kind === 'completed') {
    const { reservationId, orderId, dueMs, ticketKey, durability, code, terms } = answer;
    return `C|${reservationId}|${orderId}|${dueMs}|${ticketKey}|${encodeDurability(durability)}|${code ?? ''}|${terms}`;
  }
  const { position, queueSize, ticketKey, paceMs, presenceMs, reservationId } = answer;
  return `Q|${position}|${queueSize}|${ticketKey ?? ''}|${paceMs ?? ''}|${presenceMs}|${reservationId ?? ''}`;
}
