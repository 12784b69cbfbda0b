import { ContractError } from '../errors/faults.js';

/** The answer that an idempotency record keeps: enough to say the first one again, byte for byte. */
export type RememberedAnswer =
  | {
      kind: 'completed';
      reservationId: string;
      orderId: string;
      dueMs: number;
      ticketKey: string;
      durable: boolean;
      /** Number of the code; null = none. */
      code: number | null;
      /** Version of the terms it was made under. */
      terms: number;
    }
  | {
      kind: 'queued';
      position: number;
      queueSize: number;
      ticketKey: string;
      /** Milliseconds for each person in the line; null = nobody could say. */
      paceMs: number | null;
      /** How often he must be seen; 0 = he need not be. */
      presenceMs: number;
    };

/**
 * Decodes what lua/reserve.lua remembers: `C|reservation|order|due|ticket key|durable|code|terms`, or
 * `Q|position|size|ticket key` with `|pace` when it was known and `|presence` when he must be seen.
 */
export function decodeRememberedAnswer(text: string): RememberedAnswer {
  const fields = text.split('|');
  const [kind, a, b, c, d, e, code, terms] = fields;
  if (kind === 'C' && fields.length === 8) {
    return {
      kind: 'completed',
      reservationId: String(a),
      orderId: String(b),
      dueMs: Number(c),
      ticketKey: String(d),
      durable: e === '1',
      code: code ? Number(code) : null,
      terms: Number(terms),
    };
  }
  if (kind === 'Q' && fields.length >= 4 && fields.length <= 6) {
    return {
      kind: 'queued',
      position: Number(a),
      queueSize: Number(b),
      ticketKey: String(c),
      paceMs: d ? Number(d) : null,
      presenceMs: Number(e ?? 0),
    };
  }
  throw new ContractError(`an idempotency record is malformed: ${text}`);
}
