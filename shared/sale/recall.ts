import type { IdempotencyKey, ProductId, UserId } from '../domain/ids.js';
import { EngineUnavailable } from '../errors/faults.js';
import type { ShopperStatusOutcome } from './scripts/line.js';

/**
 * Restores records of an archived campaign from Postgres. Each method returns whether Postgres has any.
 * @throws EngineUnavailable when Postgres cannot be used
 */
export type Recall = {
  /** Restores the idempotency record of a user. */
  answer(product: ProductId, user: UserId, key: IdempotencyKey): Promise<boolean>;
  /** Restores the records of a user. @param pass name of the pass in the reply of the script that missed them */
  person(product: ProductId, user: UserId, pass: string): Promise<boolean>;
  /** Restores all records of the user who made the reservation. */
  reservation(product: ProductId, reservation: string, pass: string): Promise<boolean>;
};

/** Reply of a script that misses records. */
export type Missed = { kind: 'archived'; pass: string; presenceMs?: number };

/** The archiver may run concurrently, but at most once per call. */
const TRIES = 3;

/**
 * Calls a script. When it misses records of an archived campaign, restores them and calls it again.
 * @param unknown makes the reply when Postgres has no records either
 * @param recall null = no records are restored
 */
export async function decided<Reply extends { kind: string }>(
  ask: () => Promise<Reply>,
  bring: (recall: Recall, pass: string) => Promise<boolean>,
  unknown: (missed: Missed) => Exclude<Reply, Missed>,
  recall: Recall | null,
  /** Reply of a call that was made already. */
  first: Missed | null = null,
): Promise<Exclude<Reply, Missed>> {
  let reply: Reply | Missed = first ?? (await ask());
  for (let tries = 0; tries < TRIES; tries += 1) {
    if (!wasMissed(reply)) return reply as Exclude<Reply, Missed>;
    if (!recall || !(await bring(recall, reply.pass))) return unknown(reply);
    reply = await ask();
  }
  if (!wasMissed(reply)) return reply as Exclude<Reply, Missed>;
  throw new EngineUnavailable('redis', 'records of an archived campaign were archived again');
}

const wasMissed = (reply: { kind: string }): reply is Missed => reply.kind === 'archived';

/** The standing of a user in an archived campaign, which has no line. */
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
    qty: 0,
    paceMs: null,
    presenceMs,
    // Postgres has all records of an archived campaign.
    durable: false,
  };
}
