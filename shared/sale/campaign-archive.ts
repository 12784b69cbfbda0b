import type { IdempotencyKey, OwnedKey, ProductId, UserId } from '../domain/ids.js';
import { keys, saleKeys } from '../redis/keys.js';
import type { ScriptRunner } from '../redis/script-runner.js';
import { encodePerson, type PersonRecord } from './person-record.js';
import { encodeReservation, type ReservationRecord } from './reservation-record.js';
import { throughGate } from './sale-reader.js';
import {
  type ArchiveOutcome,
  archiveScript,
  type EvictResponseOutcome,
  evictResponseScript,
  MAX_RESTORED,
  type RestoreUserOutcome,
  restoreUserScript,
} from './scripts/archive.js';

/** Counts of a campaign in Postgres: units by state, and the number of reservations. */
export type CountedRows = { redeemed: number; burned: number; reservations: number };

/**
 * Archives closed campaigns in Redis, and restores users who return to an archived campaign
 * (docs/decisions/0020-archive.md).
 */
export class CampaignArchive {
  constructor(readonly scripts: ScriptRunner) {}

  /**
   * Removes the records of a closed campaign from Redis.
   * @param committed id of the last journal entry that Postgres has
   * @param counted null = not counted yet: nothing is removed, and `ready` means that a count is worthwhile
   */
  archive(
    product: ProductId,
    committed: string,
    counted: CountedRows | null,
    limits: { entries: number; graceMs: number; restMs: number },
  ): Promise<ArchiveOutcome> {
    return this.scripts.run(archiveScript, {
      keys: saleKeys(product),
      args: {
        committed,
        limit: limits.entries,
        grace_ms: limits.graceMs,
        rest_ms: limits.restMs,
        redeemed: counted?.redeemed ?? null,
        burned: counted?.burned ?? null,
        rows: counted?.reservations ?? null,
      },
    });
  }

  /**
   * Writes the records of a user back to Redis, with the references of their payments.
   * @param pass name of the pass, received before the records were read from Postgres
   */
  restoreUser(
    product: ProductId,
    pass: string,
    user: UserId,
    person: PersonRecord,
    reservations: ReadonlyMap<string, ReservationRecord>,
    payments: ReadonlyMap<string, readonly string[]>,
  ): Promise<RestoreUserOutcome> {
    return this.scripts.run(restoreUserScript, {
      keys: saleKeys(product),
      args: { archived: pass, user, person: encodePerson(person) },
      each: [...reservations].slice(-MAX_RESTORED).map(([id, record]) => {
        const references = payments.get(id);
        return {
          reservation_id: id,
          record: encodeReservation(record),
          references: references ? JSON.stringify(references) : '',
        };
      }),
    });
  }

  /** Restores an idempotency record unless the key exists. A record never changes, so it cannot be outdated. */
  async rememberAnswer(user: UserId, key: IdempotencyKey, answer: string, ttlMs: number): Promise<void> {
    const { redis } = this.scripts;
    await throughGate(this.scripts, () => redis.set(keys.idempotency(user, key), answer, 'PX', ttlMs, 'NX'));
  }

  /** Evicts the idempotency record of a key. @param owned null = none, only `upTo` is stored */
  evictResponse(product: ProductId, owned: OwnedKey | null, upTo: string): Promise<EvictResponseOutcome> {
    const idempotency = keys.idempotency((owned?.user ?? '') as UserId, (owned?.key ?? '') as IdempotencyKey);
    return this.scripts.run(evictResponseScript, {
      keys: { ...saleKeys(product), idempotency },
      args: { up_to: upTo },
    });
  }
}
