import type { IdempotencyKey, OwnedKey, ProductId, UserId } from '../domain/ids.js';
import { EngineUnavailable } from '../errors/faults.js';
import { keys, saleKeys } from '../redis/keys.js';
import type { ScriptRunner } from '../redis/script-runner.js';
import { encodePerson, type PersonRecord } from './person-record.js';
import { encodeReservation, type ReservationRecord } from './reservation-record.js';
import {
  type ArchiveOutcome,
  archiveScript,
  type EvictResponseOutcome,
  evictResponseScript,
  MAX_RESTORED,
  type RestoreUserOutcome,
  restoreUserScript,
} from './scripts/archive.js';

/** What Postgres has of a campaign: units, and the number of its reservations. */
export type CountedRows = { redeemed: number; burned: number; reservations: number };

/**
 * What becomes of a campaign in Redis when it is over, and how somebody is brought back who returns to it
 * (docs/decisions/0020-archive.md).
 */
export class CampaignArchive {
  constructor(readonly scripts: ScriptRunner) {}

  /**
   * @param committed id of the last journal entry that Postgres has
   * @param counted null = not asked yet; then nothing is removed, and the answer says whether it is worth asking
   */
  archive(
    product: ProductId,
    committed: string,
    counted: CountedRows | null,
    limits: { archiveEntries: number; archiveGraceMs: number; archiveRestMs: number },
  ): Promise<ArchiveOutcome> {
    return this.scripts.run(archiveScript, {
      keys: saleKeys(product),
      args: {
        committed,
        limit: limits.archiveEntries,
        grace_ms: limits.archiveGraceMs,
        rest_ms: limits.archiveRestMs,
        redeemed: counted?.redeemed ?? null,
        burned: counted?.burned ?? null,
        rows: counted?.reservations ?? null,
      },
    });
  }

  /** Brings somebody's records back, with the references of their payments. @param pass of which the caller was told before he read them in Postgres */
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

  /** Puts a remembered answer back, unless its key stands for something already. It never changes, so it cannot be old. */
  async rememberAnswer(user: UserId, key: IdempotencyKey, answer: string, ttlMs: number): Promise<void> {
    const { redis, gate } = this.scripts;
    const set = () => redis.set(keys.idempotency(user, key), answer, 'PX', ttlMs, 'NX');
    try {
      await (gate ? gate.guard(set) : set());
    } catch (error) {
      throw EngineUnavailable.from('redis', error);
    }
  }

  /** @param owned null = none, only `upTo` is kept */
  evictResponse(product: ProductId, owned: OwnedKey | null, upTo: string): Promise<EvictResponseOutcome> {
    const idempotency = keys.idempotency((owned?.user ?? '') as UserId, (owned?.key ?? '') as IdempotencyKey);
    return this.scripts.run(evictResponseScript, {
      keys: { ...saleKeys(product), idempotency },
      args: { up_to: upTo },
    });
  }
}
