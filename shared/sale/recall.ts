import type { IdempotencyKey, ProductId, UserId } from '../domain/ids.js';
import { EngineUnavailable } from '../errors/faults.js';
import type { ShopperStatusOutcome } from './scripts/line.js';

/**
 * Brings back what left Redis with an archived campaign. Each says whether there was anything to bring.
 * @throws EngineUnavailable when Postgres cannot be asked
 */
export type Recall = {
  /** The answer to this key of this user. */
  answer(product: ProductId, user: UserId, key: IdempotencyKey): Promise<boolean>;
  /** @param pass by which the campaign was archived when the records were missed */
  person(product: ProductId, user: UserId, pass: string): Promise<boolean>;
  /** Whoever made it, with all that he has. */
  reservation(product: ProductId, reservation: string, pass: string): Promise<boolean>;
};

/** A script has missed somebody's records. */
export type Missed = { kind: 'archived'; pass: string; presenceMs?: number };

/** A pass of the archive may come in between; two of them never do within a call. */
const TRIES = 3;

/**
 * Asks a script, and asks it again when the one it is about was missed and is recalled.
 * @param nobody what is said when Postgres does not know him either
 * @param recall null = nobody is recalled
 */
export async function decided<Reply extends { kind: string }>(
  ask: () => Promise<Reply>,
  bring: (recall: Recall, pass: string) => Promise<boolean>,
  nobody: (missed: Missed) => Exclude<Reply, Missed>,
  recall: Recall | null,
  /** What the script has said already. */
  first: Missed | null = null,
): Promise<Exclude<Reply, Missed>> {
  let reply: Reply | Missed = first ?? (await ask());
  for (let tries = 0; tries < TRIES; tries += 1) {
    if (!wasMissed(reply)) return reply as Exclude<Reply, Missed>;
    if (!recall || !(await bring(recall, reply.pass))) return nobody(reply);
    reply = await ask();
  }
  if (!wasMissed(reply)) return reply as Exclude<Reply, Missed>;
  throw new EngineUnavailable('redis', 'who was recalled to an archived campaign was gone again');
}

const wasMissed = (reply: { kind: string }): reply is Missed => reply.kind === 'archived';

/** Of a closed campaign nobody waits in line any more. */
export function notQueued({ presenceMs = 0 }: Missed): Extract<ShopperStatusOutcome, { kind: 'standing' }> {
  return {
    kind: 'standing',
    status: 'not_queued',
    position: 0,
    queueSize: 0,
    reservationId: '',
    orderId: '',
    dueMs: 0,
    code: null,
    paceMs: null,
    presenceMs,
    // Of a campaign that is over nothing waits for Postgres.
    durable: false,
  };
}
