import type { IdempotencyKey, OrderId, ProductId, UserId } from '../../shared/domain/ids.js';
import type { MovedCodes } from '../../shared/postgres/campaign-buckets.js';
import { campaignKeys, keys } from '../../shared/redis/keys.js';
import { packRecord } from '../../shared/redis/record-format.js';
import { HOLDER } from '../../shared/redis/record-formats.js';
import { encodePerson, type PersonRecord } from '../../shared/sale/person-record.js';
import { encodeReservation, type ReservationRecord } from '../../shared/sale/reservation-record.js';
import type { FillAction, RedisFill } from './redis-fill.js';

/** @see lua/includes/orders.lua */
export type OrderClaim = { reservation: string; user: UserId; order: OrderId; stacking: string; ttlMs: number };

/** Records in one call. Redis needs about a millisecond for them. */
const BATCH = 1_000;

/**
 * Writes a campaign's records into a Redis that is out of service. The campaign hash is written last (Campaigns.load),
 * so no script finds half of the campaign. Every method throws FencedOut if another worker has begun to fill Redis
 * since.
 */
export class CampaignRestore {
  /**
   * @param token the one with which this worker has begun to fill Redis
   * @param seenMs when waiting users were last seen; null = the campaign does not require presence
   */
  constructor(
    readonly fill: RedisFill,
    readonly token: string,
    readonly product: ProductId,
    readonly seenMs: number | null = null,
  ) {}

  /** Removes the campaign and every record of it that an older Redis may still have. */
  clear(): Promise<void> {
    return this.fill.write(this.token, 'remove', [...campaignKeys(this.product), keys.payments(this.product)]);
  }

  async reservations(records: ReadonlyMap<string, ReservationRecord>): Promise<void> {
    const keyNames = [keys.reservations(this.product), keys.deadlines(this.product)];
    await this.#write('reservations', keyNames, [...records], ([id, record]) => [
      id,
      encodeReservation(record),
      record.state === 'reserved' ? record.dueMs : '',
    ]);
  }

  /** @param references for each reservation, the references of its payments, oldest first */
  async payments(references: readonly (readonly [string, readonly string[]])[]): Promise<void> {
    await this.#write('payments', [keys.payments(this.product)], references, ([id, some]) => [
      id,
      JSON.stringify(some),
    ]);
  }

  async people(people: readonly (readonly [string, PersonRecord])[]): Promise<void> {
    const { product, seenMs } = this;
    const keyNames = [keys.people(product), keys.line(product), keys.presence(product)];
    await this.#write('people', keyNames, people, ([user, person]) => [
      user,
      encodePerson(person),
      person.inLine ? person.lineNo : '',
      person.inLine ? (seenMs ?? '') : '',
    ]);
  }

  /** Writes which device took which place in line. */
  async holders(holders: readonly { user: string; lineNo: number; device: string }[]): Promise<void> {
    await this.#write('holders', [keys.holders(this.product)], holders, ({ user, lineNo, device }) => [
      user,
      packRecord(HOLDER, { line_no: lineNo, device }),
    ]);
  }

  /** Marks codes as used. */
  async codes(numbers: readonly number[]): Promise<void> {
    await this.#write('codes', [keys.usedCodes(this.product)], numbers, (number) => [number]);
  }

  /**
   * Marks the codes of a pool that other buckets have. It comes before `codes`.
   * @param codes of the campaign. @param moved how the codes of the bucket differ from those at home there
   */
  async ownCodes(bucket: number, buckets: number, codes: number, moved: MovedCodes): Promise<void> {
    const keyNames = [keys.usedCodes(this.product)];
    await this.fill.write(this.token, 'homes', keyNames, [bucket, buckets, codes]);
    await this.#write('gained_codes', keyNames, moved.gained, (number) => [number]);
    await this.codes(moved.given);
  }

  async answers(answers: readonly { user: string; key: string; answer: string; ttlMs: number }[]): Promise<void> {
    const keyOf = ({ user, key }: { user: string; key: string }) =>
      keys.idempotency(user as UserId, key as IdempotencyKey);
    await this.#write('answers', keyOf, answers, ({ answer, ttlMs }) => [answer, ttlMs]);
  }

  /** Adds reservations to their orders. Existing claims stay, because one order may have codes of several campaigns. */
  async orders(claims: readonly OrderClaim[]): Promise<void> {
    const keyOf = ({ user, order }: OrderClaim) => keys.order(user, order);
    await this.#write('orders', keyOf, claims, ({ reservation, stacking, ttlMs }) => [reservation, stacking, ttlMs]);
  }

  /** @param keyNames of all rows, or that of each one */
  async #write<Row>(
    action: FillAction,
    keyNames: readonly string[] | ((row: Row) => string),
    rows: readonly Row[],
    data: (row: Row) => (string | number)[],
  ): Promise<void> {
    for (let start = 0; start < rows.length; start += BATCH) {
      const some = rows.slice(start, start + BATCH);
      const names = typeof keyNames === 'function' ? some.map(keyNames) : keyNames;
      await this.fill.write(this.token, action, names, some.flatMap(data));
    }
  }
}
