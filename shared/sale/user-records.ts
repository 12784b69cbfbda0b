import { randomUUID } from 'node:crypto';
import type { IdempotencyKey, OrderId, ProductId, UserId } from '../domain/ids.js';
import { keys, saleKeys } from '../redis/keys.js';
import type { ScriptRunner } from '../redis/script-runner.js';
import { throughGate } from './sale-reader.js';
import { type EraseUserOutcome, eraseUserScript, MAX_ERASED } from './scripts/erase-user.js';

/** What a row of a user names in Redis; null = nothing. */
export type NamedInRedis = { key: string | null; order: string | null };

/** The records of one user in a shard of Redis, for their erasure. Every method throws EngineUnavailable. */
export class UserRecords {
  constructor(readonly scripts: ScriptRunner) {}

  /**
   * Replaces the user by a pseudonym in one campaign. Repeatable.
   * @param reservations of the user, newest first; beyond 10,000 they are left out
   */
  erase(
    product: ProductId,
    user: UserId,
    pseudonym: UserId,
    reservations: readonly string[],
    { check = false } = {},
  ): Promise<EraseUserOutcome> {
    return this.scripts.run(eraseUserScript, {
      keys: saleKeys(product),
      args: { user, pseudonym, check, pass: randomUUID() },
      each: reservations.slice(0, MAX_ERASED).map((reservation_id) => ({ reservation_id })),
    });
  }

  /** Removes idempotency records of the user and the claims on their orders. */
  async removeNamed(user: UserId, named: readonly NamedInRedis[]): Promise<void> {
    const names = named.flatMap(({ key, order }) => [
      ...(key === null ? [] : [keys.idempotency(user, key as IdempotencyKey)]),
      ...(order === null ? [] : [keys.order(user, order as OrderId)]),
    ]);
    if (names.length === 0) return;
    await throughGate(this.scripts, () => this.scripts.redis.unlink(...names));
  }
}
