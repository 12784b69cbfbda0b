import type { ChainableCommander } from 'ioredis';
import type { ProductId } from '../domain/ids.js';
import { keys } from '../redis/keys.js';
import { recordIn } from '../redis/record-format.js';
import { PERSON } from '../redis/record-formats.js';
import { decodeReservation } from '../sale/reservation-record.js';
import { type AtMoment, atMoment, mapOf, scanned } from '../sale/sale-copy.js';
import { type SaleReader, STOCK_FIELDS, stockOf, throughGate } from '../sale/sale-reader.js';
import { factOf, type Head, type Place, type Reservation } from './facts.js';

/** Added to the score of a demoted user (lua/includes/presence.lua). */
const AWAY = 2 ** 52;

/** Reads the facts of a campaign, or of one of its buckets, in Redis. Changes nothing. */
export class RedisReader {
  constructor(
    readonly sale: Pick<SaleReader, 'scripts'>,
    readonly product: ProductId,
  ) {}

  /** Yields the id of every reservation in batches. One may come twice while the campaign changes. */
  reservationIds(batch: number): AsyncGenerator<readonly string[]> {
    const { redis } = this.sale.scripts;
    return scanned((cursor) => this.#read(() => redis.hscan(keys.reservations(this.product), cursor, 'COUNT', batch)));
  }

  /** Yields every user in the line in batches, as `reservationIds` does. */
  waitingUsers(batch: number): AsyncGenerator<readonly string[]> {
    const { redis } = this.sale.scripts;
    return scanned((cursor) => this.#read(() => redis.zscan(keys.line(this.product), cursor, 'COUNT', batch)));
  }

  reservations(ids: readonly string[]): Promise<AtMoment<ReadonlyMap<string, Reservation>>> {
    const transaction = this.#multi().hmget(keys.reservations(this.product), ...ids);
    return this.#atOnce(transaction, ([texts]) =>
      mapOf(ids, texts as (string | null)[], (text) => factOf(decodeReservation(text))),
    );
  }

  places(users: readonly string[]): Promise<AtMoment<ReadonlyMap<string, Place>>> {
    const transaction = this.#multi()
      .zmscore(keys.line(this.product), ...users)
      .hmget(keys.people(this.product), ...users);
    return this.#atOnce(transaction, ([scores, people]) =>
      mapOf(users, scores as (string | null)[], (score, i) => {
        const record = recordIn(PERSON, (people as (string | null)[])[i] ?? '');
        return { lineNo: Number(score) % AWAY, reservation: record?.reservation_id ?? '', qty: record?.qty ?? 0 };
      }),
    );
  }

  /**
   * The head, and the number of reservations. `head`: null = Redis lacks the campaign. Its total counts the units that
   * Redis has removed because Postgres had no room for them (lua/void.lua).
   */
  head(): Promise<AtMoment<{ head: Head | null; reservations: number }>> {
    const transaction = this.#multi()
      .hmget(keys.campaign(this.product), ...STOCK_FIELDS, 'refused')
      .hlen(keys.reservations(this.product));
    return this.#atOnce(transaction, ([found, reservations]) => {
      const values = found as (string | null)[];
      const head = stockOf(values);
      if (head?.total != null) head.total += Number(values.at(-1));
      if (!head) this.sale.scripts.places?.assertNowhere(this.product);
      return { head, reservations: reservations as number };
    });
  }

  #multi(): ChainableCommander {
    return this.sale.scripts.redis.multi();
  }

  #atOnce<Value>(transaction: ChainableCommander, decode: (results: unknown[]) => Value): Promise<AtMoment<Value>> {
    return atMoment(transaction, decode, (read) => this.#read(read));
  }

  #read<Value>(read: () => Promise<Value>): Promise<Value> {
    return throughGate(this.sale.scripts, read);
  }
}
