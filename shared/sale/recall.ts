import type { IdempotencyKey, ProductId, UserId } from '../domain/ids.js';
import { EngineUnavailable } from '../errors/faults.js';
import { compareJournalIds } from '../redis/journal-ids.js';
import type { ShopperStatusOutcome } from './scripts/line.js';

/**
 * Restores records of an archived campaign from Postgres. Each method returns whether Postgres has any.
 * @throws EngineUnavailable when Postgres cannot be used
 */
export type Recall = {
  /** Restores the idempotency record of a user. @param pass as for `person` */
  answer(product: ProductId, user: UserId, key: IdempotencyKey, pass: string): Promise<boolean>;
  /** Restores the records of a user. @param pass name of the pass in the reply of the script that missed them */
  person(product: ProductId, user: UserId, pass: string): Promise<boolean>;
  /** Restores all records of the user who made the reservation. */
  reservation(product: ProductId, reservation: string, pass: string): Promise<boolean>;
};

/** Reply of a script that misses records. */
export type Missed = { kind: 'archived'; pass: string; presenceMs?: number };

/**
 * The pass of an archived campaign whose records are not all in Postgres, because it was set back. No user is recalled
 * until an operator decides that the rows of Postgres count (POST …/reconcile).
 */
export const LOST = 'lost';

/** In the name of a pass (lua/archive.lua): a journal entry of its shard, and a version of the map of campaigns. */
const COVERED = /^(?<last>\d+-\d+)(?:\/(?<map>\d+))?@/;

/** The last journal entry that Postgres had before a pass; null = the pass names none. */
export const lastOfPass = (pass: string): string | null => COVERED.exec(pass)?.groups?.last ?? null;

/**
 * What Postgres has: the last journal entry of a shard, the version of the map of campaigns, and the products of which
 * it has lost records.
 */
export type Committed = { last: string; mapVersion: number; lost: readonly string[] };

/** The name of the pass of a campaign that was filled as archived from what Postgres has. */
export const passOfFill = ({ last, mapVersion }: Omit<Committed, 'lost'>, nowMs: number): string =>
  `${last}/${mapVersion}@${Math.round(nowMs)}`;

/**
 * Checks that Postgres has all records of an archived campaign. A replica of Redis that was promoted may lack the mark
 * `lost`, so the row counts too.
 * @param pass name of the pass that archived it
 * @param committed reads what Postgres has
 * @throws EngineUnavailable when Postgres was set back since, or a replica is behind
 */
export async function assertCovered(
  product: ProductId,
  pass: string,
  committed: () => Promise<Committed>,
): Promise<void> {
  const has = pass === LOST ? null : await committed();
  if (!has || has.lost.includes(product))
    throw new EngineUnavailable('postgres', 'it has lost records of this archived campaign');
  const { last, map = 0 } = COVERED.exec(pass)?.groups ?? {};
  if (last === undefined) return;
  if (compareJournalIds(has.last, last) < 0 || has.mapVersion < Number(map))
    throw new EngineUnavailable('postgres', 'it lacks entries from before the campaign was archived');
}

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
